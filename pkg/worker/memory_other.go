//go:build !unix

package worker

// reserve returns room for n entries.
func reserve(_ *window, n int) []windowEntry { return make([]windowEntry, n) }
