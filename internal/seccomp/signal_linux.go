//go:build amd64 || arm64

package seccomp

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
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

// The kernel does not interrupt a call that the supervisor has received (SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV), and
// notifies the supervisor of no signal. The supervisor therefore polls for signals.
const (
	// signalCheck is the time in milliseconds after which a call that waits looks for signals. With many calls it is a
	// millisecond for each, so that looking takes a bounded part of a processor.
	signalCheck = 10
	// lateSignal is the number of checks after which a shared signal is one that its thread cannot take.
	lateSignal = 2
	// stuckSignal is the number of checks after which a call that cannot be restarted fails.
	stuckSignal = 50
)

// pending is the kind of signal that a thread has.
type pending int

const (
	noSignal     pending = iota
	ownSignal            // the kernel has chosen this thread to handle it
	sharedSignal         // the kernel has chosen this thread or another one of its process
)

// signal returns whether the kernel interrupts the call if it ends: the thread has a signal that is neither blocked
// nor ignored, or the process has one, for which the kernel chooses the first thread if that does not block the signal
// (complete_signal), and otherwise any other one.
func (t *task) signal() pending {
	own := strconv.Itoa(t.tid)
	m, err := signalMasks(own)
	if err != nil {
		return ownSignal // the thread has ended
	}
	ignored := m["SigBlk"] | m["SigIgn"]
	shared := m["ShdPnd"] &^ ignored
	switch {
	case m["SigPnd"]&^ignored != 0:
		return ownSignal
	case shared == 0:
		return noSignal
	case m["Tgid"] == uint64(t.tid):
		return ownSignal
	}
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", m["Tgid"]))
	for _, other := range threads {
		if m, err := signalMasks(other.Name()); other.Name() != own && err == nil && shared&^m["SigBlk"] != 0 {
			return sharedSignal
		}
	}
	if err != nil {
		return sharedSignal
	}
	return ownSignal
}

// interrupt makes the kernel look for signals when the call ends, and restart the call if there is none. A thread does
// so by tracing the other one for a moment and ending, so that the kernel ends tracing in whatever state that one is.
// Error: EPERM if another process traces it, or the system forbids it.
func (t *task) interrupt() error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine, unless it is the first one of the process
		if unix.Gettid() == os.Getpid() {
			done <- t.interrupt()
			runtime.UnlockOSThread()
			return
		}
		err := unix.PtraceSeize(t.tid)
		if err == nil {
			err = unix.PtraceInterrupt(t.tid)
		}
		done <- err
	}()
	return <-done
}
