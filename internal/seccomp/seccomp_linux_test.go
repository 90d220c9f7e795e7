//go:build amd64 || arm64

package seccomp

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestRedirect(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	const function, class = "/sys/devices/pciddd0:00/ddd0:00:00.0", "/sys/class/infiniband/"
	for name, to := range map[string]string{
		class + "x":                         "../../devices/pciddd0:00/ddd0:00:00.0/infiniband/x",
		function + "/infiniband/x/device":   "../../../ddd0:00:00.0",
		class + "loop":                      "loop",
		"/sys/bus/pci/devices/0000:00:01.0": "../../../devices/pci0000:00/0000:00:01.0",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(root+name), 0o755))
		require.NoError(t, os.Symlink(to, root+name))
	}
	for name, want := range map[string]string{
		"/sys/class/infiniband":                         root + "/sys/class/infiniband",
		"/sys//class/infiniband/y/../z":                 root + "/sys/class/infiniband/z",
		"/dev/infiniband/uverbs0":                       root + "/dev/infiniband/uverbs0",
		"/sys/class/infiniband/../../../etc/passwd":     "/etc/passwd",
		"/sys/class/infiniband/../net/":                 "/sys/class/net/",
		"/sys/class/infiniband_other":                   "",
		"/sys/class/net":                                "",
		"sys/class/infiniband":                          "",
		"":                                              "",
		"/sys/class/infiniband/../infiniband_verbs/abi": root + "/sys/class/infiniband_verbs/abi",
		class + "x":                                     root + function + "/infiniband/x",
		class + "x/":                                    root + function + "/infiniband/x/",
		class + "x/device/vendor":                       root + function + "/vendor",
		class + "x/../../../ddd0:00:01.0":               root + "/sys/devices/pciddd0:00/ddd0:00:01.0",
		class + "x/device/../../pci0000:00":             "/sys/devices/pci0000:00",
		class + "loop":                                  "",
		"/sys/bus/pci/devices":                          root + "/sys/bus/pci/devices",
		"/sys/bus/pci/devices/0000:00:01.0":             "/sys/bus/pci/devices/0000:00:01.0",
		"/sys/class/infiniband_mad/../../bus/pci/devices/0000:00:01.0": "/sys/bus/pci/devices/0000:00:01.0",
	} {
		p, ok := redirect(root, name, false)
		assert.Equal(t, want, p.file, "%q", name)
		assert.Equal(t, want != "", ok, "%q", name)
	}
	p, ok := redirect(root, class+"x", true)
	assert.True(t, ok)
	assert.Equal(t, root+class+"x", p.file)
}

func TestSpan(t *testing.T) {
	t.Parallel()
	for limit, want := range map[uint64]span{1 << 20: {768, 1024}, 1024: {768, 1024}, 300: {150, 300}, 0: {0, 0}} {
		assert.Equal(t, want, spanFor(limit), "limit %d", limit)
	}
	assert.True(t, span{768, 1024}.has(768))
	assert.False(t, span{768, 1024}.has(1024))
}

// evaluate executes a filter for a call, as the kernel does.
func evaluate(t *testing.T, p []unix.SockFilter, arch, number uint32, args ...uint64) uint32 {
	data := append(ne.AppendUint32(nil, number), ne.AppendUint32(nil, arch)...)
	data = append(data, make([]byte, 8)...)
	for i := range 6 {
		a := uint64(0)
		if i < len(args) {
			a = args[i]
		}
		data = ne.AppendUint64(data, a)
	}
	acc := uint32(0)
	for i := 0; i < len(p); i++ {
		in, isTrue := p[i], false
		switch in.Code {
		case unix.BPF_RET | unix.BPF_K:
			return in.K
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			acc = ne.Uint32(data[in.K:])
			continue
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			isTrue = acc == in.K
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			isTrue = acc >= in.K
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			isTrue = acc&in.K != 0
		default:
			require.Failf(t, "unknown instruction", "%#x", in.Code)
		}
		if isTrue {
			i += int(in.Jt)
		} else {
			i += int(in.Jf)
		}
	}
	require.Fail(t, "the filter has no end")
	return 0
}

// TestFilter checks which calls the filter selects.
func TestFilter(t *testing.T) {
	t.Parallel()
	p := filter(span{768, 1024})
	for _, x := range []struct {
		name   string
		want   uint32
		number uint32
		args   []uint64
	}{
		{"getpid", returnAllow, unix.SYS_GETPID, nil},
		{"openat", returnNotify, unix.SYS_OPENAT, nil},
		{"write to a file", returnAllow, unix.SYS_WRITE, []uint64{767}},
		{"write to a device", returnNotify, unix.SYS_WRITE, []uint64{768}},
		{"write to the last device", returnNotify, unix.SYS_WRITE, []uint64{1023}},
		{"write beyond the range", returnAllow, unix.SYS_WRITE, []uint64{1024}},
		{"write to a negative number", returnAllow, unix.SYS_WRITE, []uint64{^uint64(0)}},
		{"stat of a path", returnNotify, statCall, []uint64{atCWD, 1, 1, 0}},
		{"stat of a file", returnAllow, statCall, []uint64{3, 1, 1, unix.AT_EMPTY_PATH}},
		{"stat of a device", returnNotify, statCall, []uint64{800, 1, 1, unix.AT_EMPTY_PATH}},
		{"statx of a file", returnAllow, unix.SYS_STATX, []uint64{3, 1, unix.AT_EMPTY_PATH}},
		{"statx of a device", returnNotify, unix.SYS_STATX, []uint64{800, 1, unix.AT_EMPTY_PATH}},
		{"RDMA netlink", returnNotify, unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, protoRDMA}},
		{"route netlink", returnAllow, unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, 0}},
		{"receive from a socket", returnAllow, unix.SYS_RECVMSG, []uint64{3}},
		{"receive from a netlink socket", returnNotify, unix.SYS_RECVMSG, []uint64{800}},
		{"another socket", returnAllow, unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, protoRDMA}},
	} {
		assert.Equal(t, x.want, evaluate(t, p, auditArch, x.number, x.args...), x.name)
	}
	assert.EqualValues(t, returnAllow, evaluate(t, p, auditArch+1, unix.SYS_OPENAT), "another architecture")
}

// TestMemory copies from and to this process, with addresses that are not valid.
func TestMemory(t *testing.T) {
	t.Parallel()
	b := make([]byte, 4)
	require.ErrorIs(t, readMemory(os.Getpid(), 16, b), unix.EFAULT)
	require.ErrorIs(t, writeMemory(os.Getpid(), ^uint64(1), b), unix.EFAULT)
	require.NoError(t, readMemory(os.Getpid(), 16, nil))
	assert.False(t, populate(os.Getpid(), 16, 16, false))
	_, err := readPath(os.Getpid(), 16)
	require.ErrorIs(t, err, unix.EFAULT)
}

// TestSignalOfNobody finds no thread.
func TestSignalOfNobody(t *testing.T) {
	t.Parallel()
	nobody := &task{tid: 1 << 30}
	assert.Equal(t, ownSignal, nobody.signal())
	require.ErrorIs(t, nobody.interrupt(), unix.ESRCH)
}

// TestOldKernel checks the reason for which the carrier is refused where a listener lacks what the supervisor needs. A
// file that is no listener has none of it.
func TestOldKernel(t *testing.T) {
	t.Parallel()
	f, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer f.Close()
	err = checkKernel(numberOf(f))
	require.ErrorIs(t, err, unix.ENOTTY)
	assert.ErrorContains(t, err, "the kernel does not have it (Linux 5.14 does): SECCOMP_ADDFD_FLAG_SEND")
}
