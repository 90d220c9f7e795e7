//go:build amd64 || arm64

package seccomp

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// signalMasks are the masks in /proc/TID/status, and Tgid as a number.
func signalMasks(tid string) (map[string]uint64, error) {
	f, err := os.Open("/proc/" + tid + "/status")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	masks := map[string]uint64{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ":")
		switch base := 16; {
		case key == "Tgid":
			base = 10
			fallthrough
		case strings.HasPrefix(key, "Sig"), key == "ShdPnd":
			masks[key], _ = strconv.ParseUint(strings.TrimSpace(value), base, 64) // SigQ has another form
		}
	}
	return masks, nil
}

// hasSignal reports whether the kernel interrupts the call if it ends: the thread has a signal that is neither blocked
// nor ignored, or the process has one that it has given to this thread. The kernel does not interrupt a call that the
// supervisor has received.
func (t *task) hasSignal() (isOwn, isShared bool) {
	own := strconv.Itoa(t.tid)
	m, err := signalMasks(own)
	if err != nil {
		return true, false // the thread has ended
	}
	ignored := m["SigBlk"] | m["SigIgn"]
	if m["SigPnd"]&^ignored != 0 {
		return true, false
	}
	shared := m["ShdPnd"] &^ ignored
	return shared != 0 && isFirst(m["Tgid"], own, shared), shared != 0
}

// isFirst reports whether a thread is the first one of its process that does not block one of the signals. The kernel
// interrupts that one (complete_signal), unless it has chosen a later one before, and only its call may be restarted.
func isFirst(process uint64, thread string, signals uint64) bool {
	dir, err := os.Open(fmt.Sprintf("/proc/%d/task", process))
	if err != nil {
		return true
	}
	defer dir.Close()
	threads, _ := dir.Readdirnames(-1) // in the order of the kernel's list
	for _, tid := range threads {
		if tid == thread {
			return true
		}
		if m, err := signalMasks(tid); err == nil && signals&^m["SigBlk"] != 0 {
			return false
		}
	}
	return true
}
