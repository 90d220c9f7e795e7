package verbs

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/cmd/ddkrun/seccomp"
)

// TestCounters reads a counter in one process, before and after another one sends, by its path and relative to its
// directory, with both carriers. rdma statistic has the same counters.
func TestCounters(t *testing.T) {
	r := newRig(t)
	carriers := []string{"preload"}
	if seccomp.Check() == nil {
		carriers = append(carriers, "seccomp")
	}
	const script = `d=/sys/class/infiniband/rxe_ddk0/ports/1
cat $d/counters/port_xmit_packets; echo ready; read line
read n < $d/counters/port_xmit_packets; echo $n
cat $d/state $d/hw_counters/packets_sent; cat $d/counters/none; exit 0`
	for _, carrier := range carriers {
		cmd, out := r.command("--carrier", carrier, "sh", "-c", script)
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		pipe := newWatch(out, "ready")
		cmd.Stdout, cmd.Stderr = pipe, pipe
		require.NoError(t, cmd.Start())
		<-pipe.seen
		r.pair("ibv_rc_pingpong", "-g", "0", "-n", "20")
		_, err = in.Write([]byte("go\n"))
		require.NoError(t, err)
		require.NoError(t, cmd.Wait(), "%s", out)
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		require.Len(t, lines, 6, "%s: %s", carrier, out)
		assert.NotEqual(t, lines[0], lines[2], carrier)
		assert.Equal(t, "4: ACTIVE", lines[3], carrier)
		assert.Equal(t, lines[2], lines[4], carrier)
		assert.Contains(t, lines[5], "No such file", carrier)
		assert.Regexp(t, `^[1-9]\d*$`, lines[2], carrier)
	}
	assert.Regexp(t, regexp.MustCompile(`link rxe_ddk0/1 .*packets_sent [1-9]`), r.run("rdma", "statistic"))
	assert.Contains(t, r.run("grep", "-r", ".", "/sys/class/infiniband/rxe_ddk0/ports/1/counters"),
		"port_xmit_packets:"+strings.TrimSpace(r.run("cat",
			"/sys/class/infiniband/rxe_ddk0/ports/1/counters/port_xmit_packets")))
}
