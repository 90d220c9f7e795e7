package guest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCPIO(t *testing.T) {
	var w bytes.Buffer
	c := newCPIO(&w)
	c.file("/a/b", 0o644, []byte("hello"))
	c.link("/a/l", "b")
	c.dir("a")
	require.NoError(t, c.close())
	const zero = "00000000"
	entry := func(ino, mode, size, name string) string {
		return "070701" + ino + mode + zero + zero + "00000001" + zero + size + zero + zero + zero + zero + name
	}
	want := entry("00000001", "000041ED", zero, "00000002") + zero + "a\x00" +
		entry("00000002", "000081A4", "00000005", "00000004") + zero + "a/b\x00\x00\x00" + "hello\x00\x00\x00" +
		entry("00000003", "0000A1FF", "00000001", "00000004") + zero + "a/l\x00\x00\x00" + "b\x00\x00\x00" +
		entry("00000000", zero, zero, "0000000B") + zero + "TRAILER!!!\x00\x00\x00\x00"
	require.Equal(t, want, w.String())

	c = newCPIO(failing{})
	c.file("x", 0o644, nil)
	require.ErrorIs(t, c.close(), os.ErrClosed)
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, os.ErrClosed }

// put creates files below a temporary root.
func put(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for p, text := range files {
		p = filepath.Join(root, p)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		require.NoError(t, os.WriteFile(p, []byte(text), 0o644))
	}
	return root
}

// kmod's format, with a chain of dependencies that shares a member.
const dep = `kernel/virtio.ko:
kernel/virtio_pci.ko: kernel/virtio.ko
kernel/virtio_console.ko: kernel/virtio.ko
kernel/net/virtio_net.ko.xz: kernel/net/net_failover.ko.xz kernel/virtio.ko
kernel/net/net_failover.ko.xz:
kernel/ib-core.ko:
kernel/rdma_rxe.ko: kernel/ib-core.ko
kernel/rdma_ucm.ko: kernel/ib-core.ko
`

func TestNewestKernel(t *testing.T) {
	files := map[string]string{
		"boot/vmlinuz-6.1.0-9-amd64": "", "lib/modules/6.1.0-9-amd64/modules.dep": dep,
		"lib/modules/6.1.0-9-amd64/modules.builtin": "kernel/crc32_generic.ko\n",
		"boot/vmlinuz-6.1.0-56-amd64":               "", "lib/modules/6.1.0-56-amd64/modules.dep": dep,
		"lib/modules/6.1.0-56-amd64/modules.builtin": "kernel/crc32-generic.ko\n",
		"boot/vmlinuz-6.1.0-60-cloud-amd64":          "", "lib/modules/6.1.0-60-cloud-amd64/modules.dep": "",
		"lib/modules/6.1.0-60-cloud-amd64/modules.builtin": "",
		"boot/vmlinuz-6.1.0-70-amd64":                      "", // modules were removed
	}
	k, err := newestKernel(put(t, files))
	require.NoError(t, err)
	require.Equal(t, "6.1.0-56-amd64", k.release)
	order, err := k.order(modules)
	require.NoError(t, err)
	require.Equal(t, []string{"kernel/virtio.ko", "kernel/virtio_pci.ko", "kernel/virtio_console.ko",
		"kernel/net/net_failover.ko.xz",
		"kernel/net/virtio_net.ko.xz", "kernel/ib-core.ko", "kernel/rdma_rxe.ko", "kernel/rdma_ucm.ko"}, order)

	_, err = newestKernel(t.TempDir())
	require.ErrorContains(t, err, "no kernel image in /boot")
	delete(files, "boot/vmlinuz-6.1.0-9-amd64")
	delete(files, "boot/vmlinuz-6.1.0-56-amd64")
	_, err = newestKernel(put(t, files))
	require.ErrorContains(t, err, "kernel 6.1.0-60-cloud-amd64 has no module virtio_pci")
	require.ErrorContains(t, err, "kernel 6.1.0-70-amd64: open")
}

func TestListens(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:4855 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000
   2: 0100007F:0016 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 3 1 0 20 4 30 10 -1
`
	require.True(t, listens(table, 18517))
	require.True(t, listens(table, 8080))
	require.False(t, listens(table, 22), "connected, not listening")
	require.False(t, listens(table, 0))
	require.False(t, listens("", 22))
}

func TestUnavailable(t *testing.T) {
	u := &unavailable{}
	u.add("", "needs root")
	u.add("iproute2", "ip is not installed")
	u.add("iproute2", "rdma is not installed")
	u.add("tshark", "tshark is not installed")
	require.EqualError(t, u, "no Linux guest: needs root; ip is not installed; rdma is not installed; "+
		"tshark is not installed (apt-get install iproute2 tshark)")
}

func TestPrune(t *testing.T) {
	dir := put(t, map[string]string{"old": "", "new": "", "agent-1/agent": ""})
	old := time.Now().Add(-time.Hour)
	for _, f := range []string{"old", "agent-1"} {
		require.NoError(t, os.Chtimes(filepath.Join(dir, f), old, old))
	}
	prune(dir, old.Add(time.Minute))
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(dir, "new")}, left)
	prune(filepath.Join(dir, "not there"), time.Now())
}

func TestImage(t *testing.T) {
	im := image{}
	require.ErrorContains(t, im.addLibrary("libnone.so.9"), "libnone.so.9 not found")
	text := put(t, map[string]string{"p": "#!/bin/sh\n# a script is not an ELF file\n"})
	require.ErrorContains(t, im.addELF("/bin/p", filepath.Join(text, "p")), "bad magic")

	im = image{"/x": {mode: 0o644, data: []byte("1")}}
	a, err := im.key()
	require.NoError(t, err)
	im["/x"] = imageFile{mode: 0o644, data: []byte("2")}
	b, err := im.key()
	require.NoError(t, err)
	require.NotEqual(t, a, b)
	im["/y"] = imageFile{source: filepath.Join(text, "none")}
	_, err = im.key()
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorIs(t, im.write(filepath.Join(text, "image")), os.ErrNotExist)
	left, err := filepath.Glob(filepath.Join(text, "*"))
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(text, "p")}, left, "a failed write leaves nothing")
}
