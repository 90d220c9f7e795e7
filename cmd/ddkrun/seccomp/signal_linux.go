//go:build amd64 || arm64

package seccomp

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// hasSignal reports whether the thread has a signal that is neither blocked nor ignored. The kernel does not interrupt
// a call that the supervisor has received.
func (t *task) hasSignal() bool {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", t.tid))
	if err != nil {
		return true // the thread has ended
	}
	defer f.Close()
	masks := map[string]uint64{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ":")
		if strings.HasPrefix(key, "Sig") || key == "ShdPnd" {
			masks[key], _ = strconv.ParseUint(strings.TrimSpace(value), 16, 64) // SigQ has another form
		}
	}
	return (masks["SigPnd"]|masks["ShdPnd"])&^masks["SigBlk"]&^masks["SigIgn"] != 0
}
