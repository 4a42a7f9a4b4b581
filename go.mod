module github.com/jobtrail/jobtrail

go 1.26
