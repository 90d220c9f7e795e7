package cmid

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/accesslayer/rdmacm/internal/address"
	"ciddk/ci"
	"ciddk/mad"
)

func TestPrivateData(t *testing.T) {
	from4, to4 := netip.MustParseAddrPort("10.0.0.1:5000"), netip.MustParseAddr("10.0.0.2")
	tests := map[string]struct {
		cfg      IDConfig
		datagram bool
		room     int
		head     int
	}{
		"REQ":              {IDConfig{Space: TCP}, false, ConnectLen, mad.IPCMLen},
		"SIDR_REQ":         {IDConfig{Space: UDP}, true, LookupLen, mad.IPCMLen},
		"REQ, native":      {IDConfig{Space: IB, Service: 1}, false, NativeLen, 0},
		"SIDR_REQ, native": {IDConfig{Space: IB, Service: 1}, true, NativeUDLen, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			data := []byte(strings.Repeat("x", tt.room))
			b, err := tt.cfg.privateData(from4, to4, data, tt.datagram)
			require.NoError(t, err)
			assert.Len(t, b, tt.room+tt.head)
			assert.Equal(t, data, b[tt.head:])
			c, err := tt.cfg.parseCaller(b, address.GIDOf(from4.Addr()), address.GIDOf(to4))
			require.NoError(t, err)
			assert.Equal(t, from4.Addr(), c.from.Addr())
			assert.Equal(t, to4, c.to)
			assert.Equal(t, data, c.data)
			if tt.head != 0 {
				assert.Equal(t, from4, c.from)
			}
			_, err = tt.cfg.privateData(from4, to4, append(data, 'x'), tt.datagram)
			assert.ErrorIs(t, err, ci.InvalidParameter)
		})
	}
	cfg := IDConfig{Space: TCP}
	_, err := cfg.privateData(from4, netip.MustParseAddr("fd00::1"), nil, false)
	assert.ErrorIs(t, err, mad.ErrAddress, "two IP versions")
}

// TestCallerCheck tests that, on RoCE, a request that contains another address than the sender's or the receiver's is
// detected.
func TestCallerCheck(t *testing.T) {
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::2")
	c := caller{from: netip.AddrPortFrom(a, 1), to: b}
	assert.True(t, c.check(ci.LinkEthernet, address.GIDOf(a), address.GIDOf(b)))
	assert.False(t, c.check(ci.LinkEthernet, address.GIDOf(b), address.GIDOf(b)))
	assert.False(t, c.check(ci.LinkEthernet, address.GIDOf(a), address.GIDOf(a)))
	assert.True(t, c.check(ci.LinkInfiniBand, ci.GID{1}, ci.GID{2}), "addresses of IPoIB are not GIDs")
}

// TestVerifySender tests requests that name the port that sent them, and others.
func TestVerifySender(t *testing.T) {
	for name, tt := range map[string]struct {
		link     ci.Link
		lid      uint16 // named, with GID 1
		from     ci.LID
		gid      byte // 0: no GRH
		lmc      uint8
		expected mad.RejReason
	}{
		"Ethernet":            {link: ci.LinkEthernet, lid: 0xffff, gid: 1},
		"Ethernet, another":   {link: ci.LinkEthernet, lid: 0xffff, gid: 2, expected: mad.RejPrimaryGID},
		"InfiniBand":          {link: ci.LinkInfiniBand, lid: 7, from: 7},
		"InfiniBand, another": {link: ci.LinkInfiniBand, lid: 7, from: 8, expected: mad.RejPrimaryLID},
		"InfiniBand, another, with a GRH": {link: ci.LinkInfiniBand, lid: 7, from: 8, gid: 1,
			expected: mad.RejPrimaryLID},
		"InfiniBand, another of its LIDs": {link: ci.LinkInfiniBand, lid: 8, from: 11, lmc: 2},
		"InfiniBand, not of its LIDs": {link: ci.LinkInfiniBand, lid: 8, from: 12, lmc: 2,
			expected: mad.RejPrimaryLID},
		"from another subnet": {link: ci.LinkInfiniBand, lid: 0xffff, from: 3, gid: 1},
		"from another subnet, another": {link: ci.LinkInfiniBand, lid: 0xffff, from: 3, gid: 2,
			expected: mad.RejPrimaryGID},
		"a service that does not say more": {link: ci.LinkInfiniBand, lid: 7},
	} {
		r := &cm.Request{From: mads.Address{AV: ci.AVAttr{DLID: tt.from, Global: tt.gid != 0,
			GRH: ci.GRH{DGID: ci.GID{15: tt.gid}}}}}
		r.REQ.Primary.LocalLID, r.REQ.Primary.LocalGID = tt.lid, ci.GID{15: 1}
		assert.Equal(t, tt.expected, verifySender(r, tt.link, tt.lmc), name)
	}
}

// FuzzParseCaller parses private data of any content and length. It must not panic, and the result can be encoded
// again.
func FuzzParseCaller(f *testing.F) {
	h, err := mad.NewIPCM(netip.MustParseAddrPort("10.0.0.1:5000"), netip.MustParseAddr("10.0.0.2"))
	require.NoError(f, err)
	b := make([]byte, mad.REQPrivateLen)
	h.Put(b)
	f.Add(b, uint64(0))
	h, err = mad.NewIPCM(netip.MustParseAddrPort("[fd00::1]:1"), netip.MustParseAddr("fd00::2"))
	require.NoError(f, err)
	b = make([]byte, mad.SIDRREQPrivateLen)
	h.Put(b)
	f.Add(b, uint64(0))
	f.Add([]byte{}, uint64(0))
	f.Add([]byte{0x10, 0x40}, uint64(7))
	f.Fuzz(func(t *testing.T, private []byte, service uint64) {
		cfg := IDConfig{Space: TCP, Service: mad.ServiceID(service)}
		from, to := ci.GID{0xfe, 0x80, 15: 1}, ci.GID{0xfe, 0x80, 15: 2}
		c, err := cfg.parseCaller(private, from, to)
		if err != nil {
			if service != 0 {
				t.Fatal("a native request has no header that could be wrong: ", err)
			}
			return
		}
		if !c.from.Addr().IsValid() || !c.to.IsValid() {
			t.Fatal("no error, and no address")
		}
		again, err := cfg.privateData(c.from, c.to, c.data, true)
		if service != 0 || len(c.data) > LookupLen {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		back, err := cfg.parseCaller(again, from, to)
		if err != nil || back.from != c.from || back.to != c.to || string(back.data) != string(c.data) {
			t.Fatalf("%+v became %+v, %v", c, back, err)
		}
	})
}

// TestMGID tests the GIDs of IP groups.
func TestMGID(t *testing.T) {
	tests := map[string]string{
		"239.1.2.3":                   "ff12:4001:ffff::f01:203",
		"224.0.0.251":                 "ff12:4001:ffff::fb",
		"ff15::1:2":                   "ff12:6001:ffff::1:2",
		"ff0e:1:2:3:4:5:6:7":          "ff12:6001:ffff:3:4:5:6:7",
		"ff12:401b:ffff::1":           "ff12:401b:ffff::1",
		"ff12:a01b:fe80::1234:5678:9": "ff12:a01b:fe80::1234:5678:9",
	}
	for group, want := range tests {
		assert.Equal(t, want, netip.AddrFrom16(mgid(netip.MustParseAddr(group), 0xffff)).String(), group)
	}
}
