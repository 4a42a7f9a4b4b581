package sanitize

import "testing"

func TestBody(t *testing.T) {
	checkClass(t, classBody, []row{
		{`unexpected response body: {"name":"Jane"}`, `unexpected response body: [REDACTED]`},
		{`got 502 <!DOCTYPE html><p>hi`, `got 502 [REDACTED]`},
		{`payload=[1,2,3]`, `payload=[REDACTED]`},
		{`request body: <xml>`, `request body: [REDACTED]`},
		{`x {"id":4711,"name":"Jane Roe of Somewhere","city":"Anywhere at all"} y`, `x [REDACTED] y`},
		{`<?xml version="1.0"?><a/>`, `[REDACTED]`},
		{`responseBody={"a":1}`, `responseBody=[REDACTED]`},
	}, []string{
		`{"a":1,"b":2}`,
		`response body: too large`,
		`no body: EOF`,
		`map[a:1 b:2]`,
		`unexpected token < in JSON`,
		`a < b`,
		`{}`,
		`[1 2 3]`,
		`body length 12`,
		`antibody: none`,
	})
}
