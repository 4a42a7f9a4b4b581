//go:build unix

package worker

import (
	"runtime"
	"syscall"
	"unsafe"
)

// reserve returns room for n entries that the garbage collector neither looks at
// nor counts, for as long as w lives. Memory is taken as entries are written. A
// full window would otherwise cost its size twice, for the collector lets the
// heap grow by a share of what lives.
func reserve(w *window, n int) []windowEntry {
	if n < 4096 {
		return make([]windowEntry, n)
	}
	memory, err := syscall.Mmap(-1, 0, n*int(unsafe.Sizeof(windowEntry{})), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return make([]windowEntry, n)
	}
	runtime.AddCleanup(w, func(memory []byte) { _ = syscall.Munmap(memory) }, memory)
	return unsafe.Slice((*windowEntry)(unsafe.Pointer(&memory[0])), n)
}
