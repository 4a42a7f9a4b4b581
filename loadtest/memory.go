package loadtest

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// PeakBytes returns the most memory that a process ever held (VmHWM of Linux).
func PeakBytes(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte("VmHWM:")); ok {
			kib, err := strconv.ParseInt(string(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte(" kB"))), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("process %d does not say how much memory it held", pid)
}
