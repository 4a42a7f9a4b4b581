// Package admin is the HTTP server beside a long-running command, for the
// platform and for people: /livez, /readyz, /metrics and /debug/pprof/.
//
// It answers without credentials, so its address should not be reachable from
// outside. It never holds up the command's own work: when serving breaks, the
// server comes back by itself.
package admin
