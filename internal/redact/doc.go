// Package redact is how the commands write anything down: New makes the
// sanitiser that knows the secrets of the process and the errors of its
// clients, NewLog a log that nothing passes raw, Lines an error for people.
package redact
