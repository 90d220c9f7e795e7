package verbs

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/seccomp"
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
cat $d/state; cd $d/hw_counters; cat packets_sent sent_pkts packet_seq_err; cat $d/counters/none; exit 0`
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
		require.Len(t, lines, 8, "%s: %s", carrier, out)
		assert.NotEqual(t, lines[0], lines[2], carrier)
		assert.Equal(t, "4: ACTIVE", lines[3], carrier)
		assert.Equal(t, lines[2], lines[4], carrier)
		assert.Equal(t, lines[4], lines[5], carrier)
		assert.Equal(t, "0", lines[6], carrier)
		assert.Contains(t, lines[7], "No such file", carrier)
		assert.Regexp(t, `^[1-9]\d*$`, lines[2], carrier)
	}
	assert.Regexp(t, `link rxe_ddk0/1 .*packets_sent [1-9].* sent_pkts [1-9]`, r.run("rdma", "statistic"))
	assert.Contains(t, r.run("grep", "-r", ".", "/sys/class/infiniband/rxe_ddk0/ports/1/counters"),
		"port_xmit_packets:"+strings.TrimSpace(r.run("cat",
			"/sys/class/infiniband/rxe_ddk0/ports/1/counters/port_xmit_packets")))
}

// TestSysfsFiles looks at files of sysfs as a shell does, with both carriers: their status, attempts to write and to
// create some, and the working directory.
func TestSysfsFiles(t *testing.T) {
	r := newRig(t)
	const script = `d=/sys/class/infiniband/rxe_ddk0
stat -c '%F %a %s' $d/node_type $d/ports/1/state $d
(echo 5 > $d/node_type) 2>/dev/null && echo written
(echo 5 > $d/ports/1/state) 2>/dev/null && echo written
(echo 5 >> /sys/class/infiniband/new) 2>/dev/null && echo created
(echo 5 > /dev/infiniband/new) 2>/dev/null && echo created
cat $d/node_type; ls /sys/class/infiniband /dev/infiniband`
	const want = "regular file 444 4096\nregular file 444 4096\nsymbolic link 777 57\n1: CA\n" +
		"/dev/infiniband:\nissm0\nrdma_cm\numad0\nuverbs0\n\n/sys/class/infiniband:\nrxe_ddk0\n"
	r.pair("ibv_rc_pingpong", "-g", "0", "-n", "20")
	withCarriers(t, func(t *testing.T, flags []string) {
		run := func(script string) string { return r.run(append(flags, "sh", "-c", script)...) }
		assert.Equal(t, want, run(script))
		const dir = "/sys/devices/pciddd0:00/ddd0:00:00.0/infiniband/rxe_ddk0/ports/1"
		assert.Equal(t, "4: ACTIVE\n"+dir+"\n4: ACTIVE\n/\n", run("cd /sys/class/infiniband/rxe_ddk0/ports/1 && "+
			"cat state && env pwd && (echo 1 > state) 2>/dev/null; cat state; cd / && env pwd"))
		out := run("cd /sys/class/infiniband/rxe_ddk0/ports/1/counters; " +
			"cat port_xmit_packets; exec head -n 1 port_xmit_packets")
		assert.Regexp(t, `^([1-9]\d*)\n[1-9]\d*\n$`, out, "the counters are those of now, as open finds them")
		copied := t.TempDir()
		assert.Equal(t, "same\n", run("cd /sys/class/infiniband/rxe_ddk0 && cp -r node_guid ports "+copied+
			" && diff node_guid "+copied+" && diff -r ports "+copied+"/ports && echo same"))
	})
}

// TestFunctions finds the PCI function of an adapter, beside those of the machine, with programs that look for it.
func TestFunctions(t *testing.T) {
	r := newRig(t)
	const function = "/sys/devices/pciddd0:00/ddd0:00:00.0"
	const script = `cd /sys/class/infiniband/rxe_ddk0
basename -a $(readlink device) $(readlink device/driver)
realpath device/driver/ddd0:00:00.0 device subsystem device/subsystem
realpath /sys/class/infiniband_verbs/uverbs0/device /sys/class/misc/rdma_cm
cat device/../../../bus/pci/devices/ddd0:00:00.0/numa_node /sys/class/pci_bus/ddd0:00/../../ddd0:00:00.0/class
ls device/infiniband /sys/bus/pci/devices/ddd0:00:00.0/infiniband_verbs
cd /sys/bus/pci/devices
ls | grep -v ^ddd0 | while read f; do cmp $f/vendor /sys/bus/pci/devices/$f/vendor; done
for f in 0* $PWD/0*; do test ! -e $f/../ddd0:00:00.0 || echo "$f/.. is not that of the function"; done`
	const want = "ddd0:00:00.0\nddkd\n" + function + "\n" + function + "\n/sys/class/infiniband\n/sys/bus/pci\n" +
		function +
		"\n/sys/devices/virtual/misc/rdma_cm\n-1\n0x020700\n" +
		"/sys/bus/pci/devices/ddd0:00:00.0/infiniband_verbs:\nuverbs0\n\ndevice/infiniband:\nrxe_ddk0\n"
	withCarriers(t, func(t *testing.T, flags []string) {
		assert.Equal(t, want, r.run(append(flags, "sh", "-c", script)...))
		for program, want := range map[string]string{"lspci -D": "ddd0:00:00.0 Infiniband controller",
			"lstopo-no-graphics --of console": `OpenFabrics "rxe_ddk0"`} {
			f := strings.Fields(program)
			if _, err := exec.LookPath(f[0]); err == nil { // Debian: pciutils, hwloc-nox
				assert.Contains(t, r.run(append(flags, f...)...), want)
			}
		}
	})
}
