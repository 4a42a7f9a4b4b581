// Package jobsfile reads jobs.yaml: the job types of a worker, what runs them
// and their policies. docs/jobs-file.md describes the file.
//
// Reading is strict. [Load] reports every unknown key and every bad value at
// once, each with its line and column. What a key is called, which values it
// takes, its default and its meaning are tags of the Go types in document.go;
// decoder, JSON schema ([Schema]) and the table in docs ([Reference]) follow
// from them.
//
// The package does no I/O and reads no environment.
package jobsfile
