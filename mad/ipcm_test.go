package mad_test

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/mad"
)

func TestIPCM(t *testing.T) {
	t.Parallel()
	h, err := mad.NewIPCM(netip.MustParseAddrPort("10.0.0.1:513"), netip.MustParseAddr("::ffff:10.0.0.2"))
	require.NoError(t, err)
	b := make([]byte, mad.IPCMLen)
	h.Put(b)
	assert.Equal(t, append([]byte{0, 0x40, 2, 1}, append(append(make([]byte, 12), 10, 0, 0, 1),
		append(make([]byte, 12), 10, 0, 0, 2)...)...), b)
	assert.Equal(t, netip.MustParseAddrPort("10.0.0.1:513"), h.SourceAddr())
	assert.Equal(t, netip.MustParseAddr("10.0.0.2"), h.DestinationAddr())

	h, err = mad.NewIPCM(netip.MustParseAddrPort("[fe80::1%eth0]:1"), netip.MustParseAddr("fe80::2%eth0"))
	require.NoError(t, err)
	assert.Equal(t, netip.MustParseAddrPort("[fe80::1]:1"), h.SourceAddr())
	assert.Equal(t, netip.MustParseAddr("fe80::2"), h.DestinationAddr())

	for name, f := range map[string]func() error{
		"no source": func() error {
			_, err := mad.NewIPCM(netip.AddrPort{},
				netip.IPv6LinkLocalAllNodes())
			return err
		},
		"no destination": func() error {
			_, err := mad.NewIPCM(netip.MustParseAddrPort("1.2.3.4:5"), netip.Addr{})
			return err
		},
		"two versions": func() error {
			_, err := mad.NewIPCM(netip.MustParseAddrPort("1.2.3.4:5"), netip.IPv6Loopback())
			return err
		},
	} {
		assert.ErrorIs(t, f(), mad.ErrAddress, name)
	}
}

func TestIPCMCheck(t *testing.T) {
	t.Parallel()
	tests := []struct {
		field string
		h     mad.IPCM
		kind  error
	}{
		{"MajorVersion", mad.IPCM{MajorVersion: 1, IPVersion: 4}, mad.ErrRange},
		{"MinorVersion", mad.IPCM{MinorVersion: 1, IPVersion: 4}, mad.ErrRange},
		{"IPVersion", mad.IPCM{}, mad.ErrVersion},
		{"ReservedIP", mad.IPCM{IPVersion: 6, ReservedIP: 1}, mad.ErrReserved},
		{"Source", mad.IPCM{IPVersion: 4, Source: [16]byte{11: 1}}, mad.ErrAddress},
		{"Destination", mad.IPCM{IPVersion: 4, Destination: [16]byte{1}}, mad.ErrAddress},
	}
	for _, tt := range tests {
		err := tt.h.Check()
		require.ErrorIs(t, err, tt.kind, tt.field)
		var e *mad.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, tt.field, e.Field)
		assert.Equal(t, err, mad.SetIPCM(new(mad.REQ), &tt.h, nil))
	}
}

func TestParseIPCMRefuses(t *testing.T) {
	t.Parallel()
	good := make([]byte, mad.IPCMLen)
	(&mad.IPCM{IPVersion: 6}).Put(good)
	_, rest, err := mad.ParseIPCM(good)
	require.NoError(t, err)
	assert.Empty(t, rest)
	for name, tt := range map[string]struct {
		b    []byte
		kind error
	}{
		"nothing":       {nil, mad.ErrLength},
		"short":         {good[:35], mad.ErrLength},
		"major version": {append([]byte{0x10}, good[1:]...), mad.ErrVersion},
		"IP version 0":  {make([]byte, mad.IPCMLen), mad.ErrVersion},
		"IP version 5":  {append([]byte{0, 0x50}, good[2:]...), mad.ErrVersion},
	} {
		_, _, err := mad.ParseIPCM(tt.b)
		assert.ErrorIs(t, err, tt.kind, name)
	}
	mapped := netip.MustParseAddr("::ffff:10.0.0.1").As16()
	h := mad.IPCM{IPVersion: 6, Source: mapped, Destination: netip.MustParseAddr("fd00::2").As16()}
	b := make([]byte, mad.IPCMLen)
	h.Put(b)
	_, _, err = mad.ParseIPCM(b)
	require.ErrorIs(t, err, mad.ErrAddress, "an IPv4 address calls an IPv6 one")
	require.ErrorIs(t, h.Check(), mad.ErrAddress)
	h.Destination = mapped
	h.Put(b)
	h, _, err = mad.ParseIPCM(b)
	require.NoError(t, err)
	assert.Equal(t, netip.MustParseAddr("10.0.0.1"), h.DestinationAddr(), "an IPv4 address in an IPv6 one counts as "+
		"IPv4")
	assert.Equal(t, netip.MustParseAddrPort("10.0.0.1:0"), h.SourceAddr())
	_, _, err = mad.ParseIPCM(append([]byte{0x01, 0x6f}, good[2:]...))
	assert.NoError(t, err, "minor version and reserved bits are the sender's affair")
}

func TestSetIPCM(t *testing.T) {
	t.Parallel()
	assert.Equal(t, 56, mad.REQConsumerLen)
	assert.Equal(t, 180, mad.SIDRREQConsumerLen)
	h := mad.IPCM{IPVersion: 6}
	require.ErrorIs(t, mad.SetIPCM(new(mad.REP), &h, nil), mad.ErrAttribute)
	for room, m := range map[int]mad.CMMessage{mad.REQConsumerLen: new(mad.REQ),
		mad.SIDRREQConsumerLen: new(mad.SIDRREQ)} {
		data := bytes.Repeat([]byte{7}, room)
		require.NoError(t, mad.SetIPCM(m, &h, data))
		before := bytes.Clone(m.Private())
		require.ErrorIs(t, mad.SetIPCM(m, &h, append(data, 7)), mad.ErrLength)
		assert.Equal(t, before, m.Private())
		got, rest, err := mad.ParseIPCM(m.Private())
		require.NoError(t, err)
		assert.Equal(t, h, got)
		assert.Equal(t, data, rest)
		require.NoError(t, mad.SetIPCM(m, &h, []byte{1}))
		_, rest, err = mad.ParseIPCM(m.Private())
		require.NoError(t, err)
		assert.Equal(t, append([]byte{1}, make([]byte, room-1)...), rest)
	}
}

func TestIPCMRoundTrip(t *testing.T) {
	t.Parallel()
	addr := func(rt *rapid.T, v4 bool, label string) netip.Addr {
		if v4 {
			return netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(rt, label)))
		}
		return netip.AddrFrom16([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(rt, label)))
	}
	rapid.Check(t, func(rt *rapid.T) {
		v4 := rapid.Bool().Draw(rt, "v4")
		src, dst := addr(rt, v4, "source"), addr(rt, v4, "destination")
		if src.Is4In6() || dst.Is4In6() {
			return // IPv4 addresses, which TestIPCM covers
		}
		from := netip.AddrPortFrom(src, rapid.Uint16().Draw(rt, "port"))
		data := rapid.SliceOfN(rapid.Byte(), 0, mad.REQConsumerLen).Draw(rt, "data")
		h, err := mad.NewIPCM(from, dst)
		require.NoError(rt, err)
		require.NoError(rt, h.Check())
		var m mad.REQ
		require.NoError(rt, mad.SetIPCM(&m, &h, data))
		got, rest, err := mad.ParseIPCM(m.Private())
		require.NoError(rt, err)
		require.Equal(rt, from, got.SourceAddr())
		require.Equal(rt, dst, got.DestinationAddr())
		require.Equal(rt, data, append([]byte{}, rest[:len(data)]...))
		require.Equal(rt, make([]byte, len(rest)-len(data)), append([]byte{}, rest[len(data):]...))
	})
}
