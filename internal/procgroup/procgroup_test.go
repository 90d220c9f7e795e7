//go:build unix

package procgroup

import (
	"bufio"
	"context"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSet kills a shell and checks that its child ends, too.
func TestSet(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := exec.CommandContext(ctx, "/bin/sh", "-c", "sleep 1000 & echo $!; wait")
	Set(c)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	child, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	group, err := syscall.Getpgid(child)
	require.NoError(t, err)
	assert.Equal(t, c.Process.Pid, group)
	cancel()
	require.Error(t, c.Wait())
	assert.Eventually(t, func() bool { return ended(child) }, time.Minute, 10*time.Millisecond)
}

// ended reports whether a process that is no child of this one has ended. A killed process that nobody has waited for
// counts as ended.
func ended(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	state, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err != nil || strings.HasPrefix(strings.TrimSpace(string(state)), "Z")
}
