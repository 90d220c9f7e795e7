package frame

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/ci"
	"ciddk/internal/linktest"
	"ciddk/rvt"
	"ciddk/wire"
)

const (
	tapName     = "ddktap0"
	testType    = 0x88b5 // for experiments (IEEE 802)
	tapPatience = time.Minute
)

// newTAP opens a TAP device in a network namespace of the test. It skips the test if that is not possible here.
func newTAP(t *testing.T) Carrier {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("a TAP device needs root")
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		t.Skipf("no TAP devices here: %v", err)
	}
	runtime.LockOSThread() // for ever: the thread ends with the test, and the namespace with the thread
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skipf("no network namespace for a TAP device: %v", err)
	}
	c, err := OpenTAP(tapName)
	for _, missing := range []error{unix.EPERM, unix.EACCES, unix.ENODEV, unix.ENXIO} {
		if errors.Is(err, missing) {
			t.Skipf("no TAP devices here: %v", err)
		}
	}
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

// A station is the kernel's side of a TAP device: a socket that sends and receives frames.
type station struct {
	t  *testing.T
	fd int
}

// newStation sets the interface of the TAP device up and opens a socket on it.
func newStation(t *testing.T) *station {
	t.Helper()
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, unix.Close(fd)) })
	r, err := unix.NewIfreq(tapName)
	require.NoError(t, err)
	r.SetUint16(unix.IFF_UP)
	require.NoError(t, unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r))
	i, err := net.InterfaceByName(tapName)
	require.NoError(t, err)
	all := binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL})
	require.NoError(t, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: i.Index}))
	limit := unix.NsecToTimeval(tapPatience.Nanoseconds())
	require.NoError(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit))
	return &station{t, fd}
}

func (s *station) send(frame []byte) {
	s.t.Helper()
	_, err := unix.Write(s.fd, frame)
	require.NoError(s.t, err)
}

// receive returns the next frame from a station. The kernel sends frames of its own.
func (s *station) receive(from [6]byte) []byte {
	s.t.Helper()
	for b := make([]byte, MaxFrame); ; {
		n, err := unix.Read(s.fd, b)
		require.NoError(s.t, err, "no frame from %x", from)
		if n >= wire.EthernetLen && [6]byte(b[6:]) == from {
			return bytes.Clone(b[:n])
		}
	}
}

// testFrame returns a frame of 60 bytes for all stations.
func testFrame(from [6]byte, text string) []byte {
	f := append(bytes.Repeat([]byte{0xff}, 6), from[:]...)
	f = binary.BigEndian.AppendUint16(f, testType)
	return append(append(f, text...), make([]byte, 60-wire.EthernetLen-len(text))...)
}

// TestTAP moves frames between a carrier and the kernel, in both directions.
func TestTAP(t *testing.T) {
	c := newTAP(t)
	got := make(chan []byte, 100)
	failed := make(chan error, 1)
	require.NoError(t, c.Start(func(list [][]byte) {
		for _, f := range list {
			if binary.BigEndian.Uint16(f[12:]) == testType {
				got <- bytes.Clone(f)
			}
		}
	}, func(err error) { failed <- err }))
	require.Error(t, c.Start(func([][]byte) {}, nil), "a carrier starts once")
	out, in := testFrame(macs[0], "to the kernel"), testFrame(macs[1], "from the kernel")
	assert.Equal(t, 2, c.Send([][]byte{out, out}), "the interface is down")
	s := newStation(t)
	assert.Zero(t, c.Send([][]byte{out}))
	assert.Equal(t, out, s.receive(macs[0]))
	s.send(in)
	select {
	case f := <-got:
		assert.Equal(t, in, f)
	case <-time.After(tapPatience):
		require.Fail(t, "no frame from the kernel")
	}
	require.NoError(t, c.Close())
	_, err := net.InterfaceByName(tapName)
	require.Error(t, err, "the device lasts as long as the carrier")
	assert.Empty(t, failed, "Close is no failure")
	assert.Equal(t, 1, c.Send([][]byte{out}))
}

// TestTAPPort lets a port on a TAP device answer an ARP request of the kernel's side. Its link goes down when somebody
// removes the device.
func TestTAPPort(t *testing.T) {
	c := newTAP(t)
	p := open(t, 0, c, true)
	require.NoError(t, p.Start(rvt.PortContext{Receiver: linktest.NewCollector()}))
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	s := newStation(t)
	ask := append(bytes.Repeat([]byte{0xff}, 6), macs[1][:]...)
	ask = append(ask, 0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1) // ARP request: IPv4 over Ethernet
	ask = append(append(ask, macs[1][:]...), 10, 0, 0, 2)
	ask = append(append(ask, make([]byte, 6)...), 10, 0, 0, 1)
	s.send(append(ask, make([]byte, 60-len(ask))...))
	answer := s.receive(macs[0])
	require.GreaterOrEqual(t, len(answer), len(ask))
	assert.Equal(t, macs[1][:], answer[:6])
	assert.Equal(t, []byte{0x08, 0x06}, answer[12:14])
	assert.Equal(t, byte(2), answer[21], "a reply")
	assert.Equal(t, append(append([]byte{}, macs[0][:]...), 10, 0, 0, 1), answer[22:32])

	if _, err := exec.LookPath("ip"); err != nil {
		t.Skipf("the device cannot be removed: %v", err)
	}
	text, err := exec.CommandContext(t.Context(), "ip", "link", "del", tapName).CombinedOutput()
	require.NoError(t, err, "%s", text)
	require.Eventually(t, func() bool { return p.Attr().State == ci.PortDown }, tapPatience, time.Millisecond)
}

// hasCarrier reports whether the kernel's interface has a carrier. The interface is up.
func (s *station) hasCarrier() (bool, error) {
	r, err := unix.NewIfreq(tapName)
	if err == nil {
		err = unix.IoctlIfreq(s.fd, unix.SIOCGIFFLAGS, r)
	}
	if err != nil {
		return false, err
	}
	return r.Uint16()&unix.IFF_RUNNING != 0, nil
}

// awaitCarrier waits until the kernel's interface has a carrier, or has none.
func (s *station) awaitCarrier(want bool, why string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		has, err := s.hasCarrier()
		return err == nil && has == want
	}, tapPatience, time.Millisecond, why)
}

// TestTAPLink checks that the kernel's interface loses its carrier with the link of the port.
func TestTAPLink(t *testing.T) {
	p := open(t, 0, newTAP(t), true)
	require.NoError(t, p.Start(rvt.PortContext{Receiver: linktest.NewCollector()}))
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	s := newStation(t)
	s.awaitCarrier(true, "the port is up")
	for range 2 {
		p.SetLink(false)
		s.awaitCarrier(false, "the port is down")
		p.SetLink(true)
		s.awaitCarrier(true, "the port is up again")
	}
	require.NoError(t, p.Close())
	p.SetLink(false) // has no interface
}

// TestTAPHub checks the carrier of an interface on a hub with the port of a card, as that of ddk-model --tap.
func TestTAPHub(t *testing.T) {
	h := NewHub()
	disconnect, err := h.Connect(newTAP(t), nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, disconnect()) })
	s := newStation(t)
	s.awaitCarrier(false, "there is nobody else")
	p := open(t, 0, h.Join(), false)
	require.NoError(t, p.Start(rvt.PortContext{Receiver: linktest.NewCollector()}))
	s.awaitCarrier(true, "a port is up")
	p.SetLink(false)
	s.awaitCarrier(false, "the port is down")
	p.SetLink(true)
	s.awaitCarrier(true, "the port is up again")
	require.NoError(t, p.Close())
	s.awaitCarrier(false, "the port is closed")
}
