package localstack

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"unsafe"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"
)

// runClickHouse is the body of the child process: it runs the server until
// SIGTERM or SIGINT. boot is a file of queries that starts the listeners and
// ends with one that reads standard input to its end.
func runClickHouse(library, config, boot string) error {
	// A client that is killed leaves a socket that a write to raises SIGPIPE for,
	// on a thread of the library's: Go's own handler would end the process there.
	signal.Ignore(syscall.SIGPIPE)
	lib, err := purego.Dlopen(library, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return fmt.Errorf("loading the server: %w", err)
	}
	var (
		queryCmdline func(argc int32, argv **byte) uintptr
		resultError  func(result uintptr) string
	)
	purego.RegisterLibFunc(&queryCmdline, lib, "chdb_query_cmdline")
	purego.RegisterLibFunc(&resultError, lib, "chdb_result_error")

	// The last query waits for the end of this pipe.
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("making a pipe: %w", err)
	}
	if err := unix.Dup2(pipe[0], 0); err != nil {
		return fmt.Errorf("replacing standard input: %w", err)
	}
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-terminated
		_ = unix.Close(pipe[1])
	}()

	args := []string{"clickhouse", "--config-file", config, "--queries-file", boot}
	var pin runtime.Pinner
	defer pin.Unpin()
	argv := make([]*byte, len(args)+1)
	for i, arg := range args {
		text := append([]byte(arg), 0)
		argv[i] = &text[0]
		pin.Pin(argv[i])
	}
	pin.Pin(&argv[0])
	result := queryCmdline(int32(len(args)), (**byte)(unsafe.Pointer(&argv[0])))
	if result == 0 {
		return errors.New("the server returned nothing")
	}
	if message := resultError(result); message != "" {
		return errors.New(message)
	}
	return nil
}
