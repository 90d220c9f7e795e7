package ucm

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/internal/kproxy/devices"
	abi "ciddk/internal/ucmabi"
	"ciddk/kproxy"
	"ciddk/mad"
)

// TestSizes compares the sizes of the structures with those of Linux's header file, as a C compiler reports them.
func TestSizes(t *testing.T) {
	for name, s := range map[string][2]int{
		"create_id": {size[abi.CreateID](), 24}, "destroy_id": {size[abi.ByID](), 16}, "bind_ip": {size[abi.BindIP](),
			40},
		"bind": {size[abi.BindAddr](), 136}, "resolve_ip": {size[abi.ResolveIP](), 64},
		"resolve_addr": {size[abi.ResolveAddr](), 272}, "query": {size[abi.Query](), 16},
		"query_route_resp": {size[abi.QueryRouteResp](), 208}, "query_addr_resp": {size[abi.QueryAddrResp](), 280},
		"query_path_resp": {size[abi.QueryPathResp](), 80}, "conn_param": {size[abi.ConnParam](), 272},
		"ud_param": {size[abi.UDParam](), abi.ParamSize}, "connect": {size[abi.Connect](), 288},
		"accept": {size[abi.Accept](), 296},
		"reject": {size[abi.Reject](), 264}, "init_qp_attr": {size[abi.InitQPAttr](), 16},
		"qp_attr":       {size[abi.QPAttr](), 144},
		"join_ip_mcast": {size[abi.JoinIPMcast](), 48}, "join_mcast": {size[abi.JoinMcast](), 152},
		"event_resp": {size[abi.EventResp](), 336}, "set_option": {size[abi.SetOption](), 24},
		"migrate_id": {size[abi.MigrateID](), 16}, "write_cm_event": {size[abi.WriteEvent](), 320},
	} {
		assert.Equal(t, s[1], s[0], name)
	}
}

// TestConnection connects two programs, whose QPs are other clients of the same user, moves the QPs' attributes, and
// disconnects.
func TestConnection(t *testing.T) {
	r := newRig(t)
	server, client := r.open(), r.open()
	l := server.create(abi.SpaceTCP, 1)
	server.must(abi.CmdBindIP, abi.BindIP{Addr: at(7174), ID: l}, nil)
	server.must(abi.CmdListen, abi.Listen{ID: l, Backlog: 5}, nil)
	second := abi.BindIP{Addr: at(7174), ID: client.create(abi.SpaceTCP, 9)}
	assert.Equal(t, syscall.EADDRINUSE, client.do(abi.CmdBindIP, second, nil))

	c := client.resolved(abi.SpaceTCP, 7174)
	var route abi.QueryRouteResp
	client.must(abi.CmdQueryRoute, abi.Query{Response: replyAddr, ID: c}, &route)
	assert.EqualValues(t, 1, route.NumPaths)
	assert.Equal(t, r.guid, ci.GUID(binary.BigEndian.Uint64(route.NodeGUID[:])))
	assert.Equal(t, at(7174), route.Dst)

	param := abi.ConnParam{QPNum: r.newQP(ci.RC), ResponderResources: 3, InitiatorDepth: 2, RetryCount: 7, Valid: 1}
	param.PrivateDataLen = uint8(copy(param.PrivateData[:], "hello"))
	client.must(abi.CmdConnect, abi.Connect{Param: param, ID: c}, nil)
	e := server.next(abi.EventConnectRequest)
	assert.EqualValues(t, 1, e.UID, "the event is the listener's")
	var got abi.ConnParam
	_, err := binary.Decode(e.Param[:], ne, &got)
	require.NoError(t, err)
	assert.Equal(t, param.QPNum, got.QPNum)
	assert.EqualValues(t, 2, got.ResponderResources)
	assert.EqualValues(t, 3, got.InitiatorDepth)
	assert.Equal(t, "hello", string(got.PrivateData[:5]))

	var attr abi.QPAttr
	for state, mask := range map[uint32]uint32{1: 0x39, 2: 0x129181, 3: 0x12e01} {
		server.must(abi.CmdInitQPAttr, abi.InitQPAttr{Response: replyAddr, ID: e.ID, QPState: state}, &attr)
		assert.Equal(t, mask, attr.Mask, "state %d: %#x", state, attr.Mask)
	}
	value := []byte{21}
	timeout := abi.SetOption{Value: ci.Bytes(value).Addr(), ID: e.ID, Name: abi.OptionAckTimeout, Len: 1}
	server.must(abi.CmdSetOption, timeout, nil) // of a request, as of any ID
	server.must(abi.CmdInitQPAttr, abi.InitQPAttr{Response: replyAddr, ID: e.ID, QPState: 3}, &attr)
	assert.EqualValues(t, 21, attr.Timeout)
	own := r.newQP(ci.RC)
	server.must(abi.CmdAccept, abi.Accept{UID: 2, ID: e.ID, Param: abi.ConnParam{QPNum: own, ResponderResources: 2,
		InitiatorDepth: 3, Valid: 1}}, nil)
	assert.EqualValues(t, 5, client.next(abi.EventConnectResponse).UID)
	client.must(abi.CmdInitQPAttr, abi.InitQPAttr{Response: replyAddr, ID: c, QPState: 2}, &attr)
	assert.Equal(t, own, attr.DestQPNum)
	client.must(abi.CmdAccept, abi.Accept{ID: c}, nil)
	assert.EqualValues(t, 2, server.next(abi.EventEstablished).UID)
	services := r.services()
	require.Len(t, services, 3)
	assert.Equal(t, "listener: rdma-tcp 10.0.0.1:7174", services[0])
	assert.Contains(t, services[1], "connection: rdma-tcp 10.0.0.1:7174 to 10.0.0.1:")
	assert.Contains(t, services[1], "Established")
	assert.Contains(t, services[2], "to 10.0.0.1:7174, Established")

	client.must(abi.CmdDisconnect, abi.Disconnect{ID: c}, nil)
	server.next(abi.EventDisconnected)
	server.must(abi.CmdDisconnect, abi.Disconnect{ID: e.ID}, nil)
	client.next(abi.EventDisconnected)
	var n abi.EventsResp
	client.must(abi.CmdDestroyID, abi.ByID{Response: replyAddr, ID: c}, &n)
	assert.EqualValues(t, 4, n.EventsReported)
	server.must(abi.CmdDestroyID, abi.ByID{Response: replyAddr, ID: e.ID}, &n)
	assert.EqualValues(t, 2, n.EventsReported)
	server.must(abi.CmdDestroyID, abi.ByID{Response: replyAddr, ID: l}, &n)
	assert.EqualValues(t, 1, n.EventsReported)
	assert.Equal(t, syscall.ENOENT, server.do(abi.CmdDestroyID, abi.ByID{Response: replyAddr, ID: l}, &n))
	assert.Empty(t, client.wakes)
	assert.Empty(t, server.wakes)
}

// TestForeignQP connects with the number of a QP that does not exist, and with an ID of another file.
func TestForeignQP(t *testing.T) {
	r := newRig(t)
	p := r.open()
	x := p.resolved(abi.SpaceTCP, 1)
	assert.Equal(t, syscall.EINVAL, p.do(abi.CmdConnect, abi.Connect{Param: abi.ConnParam{QPNum: 77, Valid: 1}, ID: x},
		nil))
	qpn := r.newQP(ci.RC)
	good := abi.Connect{Param: abi.ConnParam{QPNum: qpn, Valid: 1}, ID: x}
	assert.Equal(t, syscall.EINVAL, r.open().do(abi.CmdConnect, good, nil))
	other := self
	other.UID++
	f, err := r.front.Open(deviceFile, other)
	require.NoError(t, err)
	defer f.Close()
	q := &program{t: t, f: f.(*File), wakes: make(chan struct{}, 100)}
	q.f.SetWake(func() { q.wakes <- struct{}{} })
	x = q.resolved(abi.SpaceTCP, 1)
	assert.Equal(t, syscall.EINVAL, q.do(abi.CmdConnect, abi.Connect{Param: abi.ConnParam{QPNum: qpn, Valid: 1}, ID: x},
		nil),
		"the QP is another user's")
}

// TestDatagrams looks up a QP, and joins a group.
func TestDatagrams(t *testing.T) {
	r := newRig(t)
	server, client := r.open(), r.open()
	l := server.create(abi.SpaceUDP, 1)
	server.must(abi.CmdBindIP, abi.BindIP{Addr: at(7174), ID: l}, nil)
	server.must(abi.CmdListen, abi.Listen{ID: l}, nil)
	c := client.resolved(abi.SpaceUDP, 7174)
	client.must(abi.CmdConnect, abi.Connect{Param: abi.ConnParam{Valid: 1}, ID: c}, nil)
	e := server.next(abi.EventConnectRequest)
	own := r.newQP(ci.UD)
	server.must(abi.CmdAccept, abi.Accept{UID: 2, ID: e.ID, Param: abi.ConnParam{QPNum: own, Valid: 1}}, nil)
	var ud abi.UDParam
	e = client.next(abi.EventEstablished)
	_, err := binary.Decode(e.Param[:], ne, &ud)
	require.NoError(t, err)
	assert.Equal(t, own, ud.QPNum)
	assert.EqualValues(t, 1, ud.AH.IsGlobal)

	group := abi.JoinIPMcast{Response: replyAddr, UID: 7, ID: c}
	ne.PutUint16(group.Addr[:], abi.FamilyIPv4)
	copy(group.Addr[4:], []byte{239, 1, 2, 3})
	var id abi.IDResp
	client.must(abi.CmdJoinIPMcast, group, &id)
	e = client.next(abi.EventMulticastJoin)
	assert.EqualValues(t, 7, e.UID)
	assert.Equal(t, id.ID, e.ID)
	var n abi.EventsResp
	client.must(abi.CmdLeaveMcast, abi.ByID{Response: replyAddr, ID: id.ID}, &n)
	assert.EqualValues(t, 1, n.EventsReported)
	assert.Equal(t, syscall.ENOENT, client.do(abi.CmdLeaveMcast, abi.ByID{Response: replyAddr, ID: id.ID}, &n))
	client.must(abi.CmdDestroyID, abi.ByID{Response: replyAddr, ID: c}, &n)
	assert.EqualValues(t, 4, n.EventsReported, "events of groups count for the ID, too")
}

// TestGivenUp accepts a request whose sender has destroyed its ID meanwhile.
func TestGivenUp(t *testing.T) {
	r := newRig(t)
	server, client := r.open(), r.open()
	l := server.create(abi.SpaceTCP, 1)
	server.must(abi.CmdBindIP, abi.BindIP{Addr: at(7174), ID: l}, nil)
	server.must(abi.CmdListen, abi.Listen{ID: l}, nil)
	c := client.resolved(abi.SpaceTCP, 7174)
	client.must(abi.CmdConnect, abi.Connect{Param: abi.ConnParam{QPNum: r.newQP(ci.RC), Valid: 1}, ID: c}, nil)
	e := server.next(abi.EventConnectRequest)
	var n abi.EventsResp
	client.must(abi.CmdDestroyID, abi.ByID{Response: replyAddr, ID: c}, &n)
	reply := abi.Accept{UID: 2, ID: e.ID, Param: abi.ConnParam{QPNum: r.newQP(ci.RC), Valid: 1}}
	require.Eventually(t, func() bool {
		x, err := server.f.find(e.ID)
		return err == nil && x.cm.Conn().State() == cm.StateTimeWait
	}, time.Minute, time.Millisecond)
	assert.Equal(t, syscall.EINVAL, server.do(abi.CmdAccept, reply, nil))
	server.must(abi.CmdDestroyID, abi.ByID{Response: replyAddr, ID: e.ID}, &n)
	assert.Zero(t, n.EventsReported)
}

// TestMigrate moves an ID with an event to another file.
func TestMigrate(t *testing.T) {
	r := newRig(t)
	from, to := r.open(), r.open()
	x := from.create(abi.SpaceTCP, 3)
	from.must(abi.CmdResolveIP, abi.ResolveIP{Dst: at(1), ID: x, TimeoutMS: 10_000}, nil)
	<-from.wakes
	from.wakes <- struct{}{}
	data := encode(abi.CmdMigrateID, abi.MigrateID{Response: replyAddr, ID: x, FD: 9}, 4)
	reply := to.f.Call(&devices.Request{Data: data})
	require.True(t, reply.NeedFile)
	assert.EqualValues(t, 9, reply.Number)
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	assert.Equal(t, syscall.EINVAL, to.f.Call(&devices.Request{Data: data, Number: 9, File: null}).Errno)
	reply = to.f.Call(&devices.Request{Data: data, Number: 9, File: null, Device: from.f})
	require.Zero(t, reply.Errno)
	assert.True(t, reply.QuietFile)
	<-from.wakes
	to.next(abi.EventAddrResolved)
	assert.Equal(t, syscall.EINVAL, from.do(abi.CmdResolveRoute, abi.ResolveRoute{ID: x}, nil))
	assert.Empty(t, to.wakes)
}

// TestWrittenEvents writes events of the program's own, which come in order with the others.
func TestWrittenEvents(t *testing.T) {
	p := newRig(t).open()
	x := p.create(abi.SpaceTCP, 3)
	written := abi.WriteEvent{ID: x, Event: abi.EventUser, Status: -7, Arg: 1<<40 + 5}
	p.must(abi.CmdWriteEvent, written, nil)
	p.must(abi.CmdResolveIP, abi.ResolveIP{Dst: at(1), ID: x, TimeoutMS: 10_000}, nil)
	e := p.next(abi.EventUser)
	assert.EqualValues(t, 3, e.UID)
	assert.EqualValues(t, -7, e.Status)
	assert.Equal(t, written.Arg, ne.Uint64(e.Param[:]))
	p.next(abi.EventAddrResolved)
	written.Event = abi.EventEstablished
	assert.Equal(t, syscall.EINVAL, p.do(abi.CmdWriteEvent, written, nil), "an event of the connection manager")
	written.Event = abi.EventInternal
	for range maxWaiting {
		p.must(abi.CmdWriteEvent, written, nil)
	}
	assert.Equal(t, syscall.ENOMEM, p.do(abi.CmdWriteEvent, written, nil), "the program takes no event")
	p.next(abi.EventInternal)
	var n abi.EventsResp
	p.must(abi.CmdDestroyID, abi.ByID{Response: replyAddr, ID: x}, &n)
	assert.EqualValues(t, 3, n.EventsReported)
}

// TestOptions sets options, whose values are in the program's memory.
func TestOptions(t *testing.T) {
	r := newRig(t)
	p := r.open()
	x := p.create(abi.SpaceTCP, 3)
	value := []byte{1, 0, 0, 0}
	addr := ci.Bytes(value).Addr()
	datagram := p.create(abi.SpaceUDP, 4)
	timeout := abi.SetOption{Value: addr, ID: datagram, Name: abi.OptionAckTimeout, Len: 1}
	assert.Equal(t, syscall.EINVAL, p.do(abi.CmdSetOption, timeout, nil))
	for name, n := range optionSizes {
		p.must(abi.CmdSetOption, abi.SetOption{Value: addr, ID: x, Name: name, Len: n}, nil)
	}
	assert.Equal(t, syscall.EFAULT, p.do(abi.CmdSetOption, abi.SetOption{Value: 8, ID: x, Len: 1}, nil))
	assert.Equal(t, syscall.EINVAL, p.do(abi.CmdSetOption, abi.SetOption{Value: addr, ID: x, Len: 2}, nil))
	assert.Equal(t, syscall.ENOSYS, p.do(abi.CmdSetOption, abi.SetOption{Value: addr, ID: x, Level: 1, Name: 2,
		Len: 72}, nil))
	assert.Equal(t, syscall.ENOSYS, p.do(abi.CmdGetOption, abi.None{}, nil))
}

// TestHeaders sends commands with wrong sizes.
func TestHeaders(t *testing.T) {
	p := newRig(t).open()
	call := func(b []byte) syscall.Errno { return p.f.Call(&devices.Request{Data: b}).Errno }
	good := encode(abi.CmdCreateID, abi.CreateID{Response: replyAddr, PS: abi.SpaceTCP}, 4)
	assert.Equal(t, syscall.EINVAL, call(good[:7]))
	assert.Equal(t, syscall.EINVAL, call(good[:20]), "less than the header announces")
	assert.Equal(t, syscall.EINVAL, call(encode(abi.NumCommands, abi.None{}, 0)))
	assert.Equal(t, syscall.ENOSPC, call(encode(abi.CmdCreateID, abi.CreateID{PS: abi.SpaceTCP}, 3)))
	assert.Equal(t, syscall.ENOTTY, p.f.Call(&devices.Request{IsIoctl: true}).Errno)
	assert.Equal(t, syscall.EINVAL, p.do(abi.CmdCreateID, abi.CreateID{Response: replyAddr, PS: 1}, &abi.IDResp{}))
}

// TestQuota creates IDs until the client has no memory for another one. Closing the file releases everything.
func TestQuota(t *testing.T) {
	r := newRig(t)
	p := r.open()
	count := 0
	for ; ; count++ {
		errno := p.do(abi.CmdCreateID, abi.CreateID{UID: 1, Response: replyAddr, PS: abi.SpaceTCP}, &abi.IDResp{})
		if errno != 0 {
			assert.Equal(t, syscall.ENOMEM, errno)
			break
		}
	}
	assert.Positive(t, count)
	p.f.Close()
	r.front.mu.Lock()
	defer r.front.mu.Unlock()
	assert.Empty(t, r.front.ids)
	assert.Empty(t, r.front.byCM)
}

// TestUnreadEvents joins and leaves groups without receiving the events, until commands are refused. Received events
// make room. The destruction of an ID takes its groups with it, and no others.
func TestUnreadEvents(t *testing.T) {
	r := newRig(t)
	p := r.open()
	join := func(x uint32, last byte) (number uint32, errno syscall.Errno) {
		group := abi.JoinIPMcast{Response: replyAddr, UID: 7, ID: x}
		ne.PutUint16(group.Addr[:], abi.FamilyIPv4)
		copy(group.Addr[4:], []byte{239, 1, 2, last})
		var reply abi.IDResp
		before := p.f.channel.Len()
		if errno = p.do(abi.CmdJoinIPMcast, group, &reply); errno == 0 {
			require.Eventually(t, func() bool { return p.f.channel.Len() > before }, time.Minute, time.Millisecond)
		}
		return reply.ID, errno
	}
	x, other := p.resolved(abi.SpaceUDP, 7174), p.resolved(abi.SpaceUDP, 7174)
	_, errno := join(other, 200)
	require.Zero(t, errno)
	for i := range maxWaiting - 1 {
		number, errno := join(x, byte(1+i))
		require.Zero(t, errno)
		p.must(abi.CmdLeaveMcast, abi.ByID{Response: replyAddr, ID: number}, &abi.EventsResp{})
	}
	_, errno = join(x, 100)
	require.Zero(t, errno)
	_, errno = join(x, 101)
	require.Equal(t, syscall.ENOMEM, errno)
	_, errno = join(other, 201)
	require.Zero(t, errno, "another ID has no events")
	p.next(abi.EventMulticastJoin) // of the other one; those of groups that it has left are not shown
	p.next(abi.EventMulticastJoin)
	_, errno = join(x, 101)
	require.Zero(t, errno)
	p.must(abi.CmdDestroyID, abi.ByID{Response: replyAddr, ID: x}, &abi.EventsResp{})
	groups := func() int {
		r.front.mu.Lock()
		defer r.front.mu.Unlock()
		require.Len(t, r.front.byGroup, len(r.front.groups))
		return len(r.front.groups)
	}
	assert.Equal(t, 2, groups())
	p.must(abi.CmdDestroyID, abi.ByID{Response: replyAddr, ID: other}, &abi.EventsResp{})
	assert.Zero(t, groups())
}

// TestLoopback binds and resolves addresses of the machine that no port has, and those that one has.
func TestLoopback(t *testing.T) {
	sockaddr := func(text string, port uint16) (a abi.SockaddrIn6) {
		ip := netip.MustParseAddr(text)
		family := uint16(abi.FamilyIPv6)
		if ip.Is4() {
			family = abi.FamilyIPv4
		}
		abi.PutAddress(a[:], netip.AddrPortFrom(ip, port), family)
		return a
	}
	for _, x := range []struct{ name, adapter, listen, to, bound, remote string }{
		{"IPv4", "10.0.0.1", "127.0.0.1", "127.0.0.1", "0.0.0.0", "10.0.0.1"},
		{"another of the network", "10.0.0.1", "127.1.2.3", "127.7.7.7", "0.0.0.0", "10.0.0.1"},
		{"IPv6", "fd00::7", "::1", "::1", "::", "fd00::7"},
		{"the other family", "10.0.0.1", "::1", "::1", "::", "10.0.0.1"},
		{"unspecified", "10.0.0.1", "0.0.0.0", "0.0.0.0", "0.0.0.0", "10.0.0.1"},
		{"of a port", "127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1"},
		{"beside that of a port", "127.0.0.2", "127.0.0.9", "127.0.0.2", "0.0.0.0", "127.0.0.2"},
	} {
		t.Run(x.name, func(t *testing.T) {
			r := newRigAt(t, x.adapter)
			server, client := r.open(), r.open()
			l := server.create(abi.SpaceTCP, 1)
			server.must(abi.CmdBindIP, abi.BindIP{Addr: sockaddr(x.listen, 7174), ID: l}, nil)
			server.must(abi.CmdListen, abi.Listen{ID: l, Backlog: 5}, nil)
			var route abi.QueryRouteResp
			server.must(abi.CmdQueryRoute, abi.Query{Response: replyAddr, ID: l}, &route)
			assert.Equal(t, sockaddr(x.bound, 7174), route.Src)

			c := client.create(abi.SpaceTCP, 5)
			client.must(abi.CmdResolveIP, abi.ResolveIP{Dst: sockaddr(x.to, 7174), ID: c, TimeoutMS: 10_000}, nil)
			client.next(abi.EventAddrResolved)
			client.must(abi.CmdResolveRoute, abi.ResolveRoute{ID: c, TimeoutMS: 10_000}, nil)
			client.next(abi.EventRouteResolved)
			client.must(abi.CmdQueryRoute, abi.Query{Response: replyAddr, ID: c}, &route)
			assert.Equal(t, sockaddr(x.remote, 7174), route.Dst)
			client.must(abi.CmdConnect, abi.Connect{Param: abi.ConnParam{QPNum: r.newQP(ci.RC), Valid: 1}, ID: c}, nil)
			server.next(abi.EventConnectRequest)
		})
	}
}

// TestLoopbackOfPeer resolves a loopback address that is not the port's, which has another one.
func TestLoopbackOfPeer(t *testing.T) {
	al := newRigAt(t, "127.0.0.2").al
	to := netip.MustParseAddrPort("127.0.0.1:7")
	assert.Equal(t, to, reachable(al, netip.Addr{}, to))
}

// TestSetPath sets the path of an ID, as programs do that have asked the subnet administrator themselves.
func TestSetPath(t *testing.T) {
	r := newRig(t)
	p := r.open()
	x := p.create(abi.SpaceTCP, 5)
	p.must(abi.CmdResolveIP, abi.ResolveIP{Dst: at(7174), ID: x, TimeoutMS: 10_000}, nil)
	p.next(abi.EventAddrResolved)
	rec := mad.PathRecord{DGID: [16]byte{10: 0xff, 11: 0xff, 12: 10, 15: 1}, SGID: [16]byte{10: 0xff, 11: 0xff, 12: 10,
		15: 1}, DLID: 77, SL: 3, PKey: 0xffff, HopLimit: 9, TrafficClass: 5, FlowLabel: 0x12345, MTU: mad.MTU512,
		LifeTime: 14, Reversible: true, NumbPath: 1}
	memory := make([]byte, 3*72)
	option := abi.SetOption{Value: ci.Bytes(memory).Addr(), ID: x, Level: abi.LevelIB, Name: abi.OptionIBPath,
		Len: 3 * 72}
	put := func(i int, flags uint32, rec *mad.PathRecord) {
		ne.PutUint32(memory[72*i:], flags)
		rec.Put(memory[72*i+8:])
	}
	set := func(change func(o *abi.SetOption)) syscall.Errno {
		o := option
		change(&o)
		return p.do(abi.CmdSetOption, o, nil)
	}
	none := func(*abi.SetOption) {}
	assert.Equal(t, syscall.EINVAL, set(none), "no path has the flags")
	wrong := rec
	wrong.MTU = 6
	put(1, pathFlags, &wrong)
	assert.Equal(t, syscall.EINVAL, set(none), "MTU")
	wrong = rec
	wrong.LifeTime = mad.MaxTimeExp + 1
	put(1, pathFlags, &wrong)
	assert.Equal(t, syscall.EINVAL, set(none), "life time")
	put(0, pathFlags|1<<2, &rec)
	put(1, pathFlags, &rec)
	assert.Equal(t, syscall.EFAULT, set(func(o *abi.SetOption) { o.Value = 8 }))
	assert.Equal(t, syscall.EINVAL, set(func(o *abi.SetOption) { o.Len-- }))
	assert.Equal(t, syscall.EINVAL, set(func(o *abi.SetOption) { o.Len = (maxPaths + 1) * 72 }))
	assert.Equal(t, syscall.EINVAL, set(func(o *abi.SetOption) { o.Len = 0 }))
	assert.Equal(t, syscall.EINVAL, set(func(o *abi.SetOption) { o.Len = 72 }), "the first has further flags")
	assert.Equal(t, syscall.ENOENT, set(func(o *abi.SetOption) { o.ID = 99 }))
	fresh := p.create(abi.SpaceTCP, 6)
	assert.Equal(t, syscall.EINVAL, set(func(o *abi.SetOption) { o.ID = fresh }), "an ID without a device")

	require.Zero(t, set(none))
	e := p.next(abi.EventRouteResolved)
	assert.EqualValues(t, 5, e.UID)
	assert.Zero(t, e.Status)
	assert.Equal(t, syscall.EINVAL, set(none), "the route is resolved")
	var got abi.QueryPathResp
	p.must(abi.CmdQuery, abi.Query{Response: replyAddr, ID: x, Option: abi.QueryPath}, &got)
	assert.EqualValues(t, 1, got.NumPaths)
	assert.EqualValues(t, 0x2b, got.Path.Flags)
	var back mad.PathRecord
	back.Parse(got.Path.Record[:])
	assert.Equal(t, rec.DGID, back.DGID)
	assert.Equal(t, rec.FlowLabel, back.FlowLabel)
	assert.Equal(t, rec.MTU, back.MTU)
	assert.Equal(t, rec.LifeTime, back.LifeTime)
	assert.Equal(t, rec.HopLimit, back.HopLimit)
	assert.Equal(t, rec.TrafficClass, back.TrafficClass)
	assert.Zero(t, back.DLID, "Ethernet has no LIDs")
	assert.Zero(t, back.SL)
}

// TestForeignGroup leaves a group of another file: that of another program.
func TestForeignGroup(t *testing.T) {
	r := newRig(t)
	owner, other := r.open(), r.open()
	x := owner.resolved(abi.SpaceUDP, 7174)
	join := abi.JoinIPMcast{Response: replyAddr, UID: 6, Addr: at(0), ID: x}
	copy(join.Addr[4:], []byte{239, 1, 2, 3})
	var group abi.IDResp
	owner.must(abi.CmdJoinIPMcast, join, &group)
	owner.next(abi.EventMulticastJoin)
	var left abi.EventsResp
	assert.Equal(t, syscall.EINVAL, other.do(abi.CmdLeaveMcast, abi.ByID{Response: replyAddr, ID: group.ID}, &left))
	assert.Equal(t, syscall.ENOENT, other.do(abi.CmdLeaveMcast, abi.ByID{Response: replyAddr, ID: group.ID + 1}, &left))
	owner.must(abi.CmdLeaveMcast, abi.ByID{Response: replyAddr, ID: group.ID}, &left)
	assert.EqualValues(t, 1, left.EventsReported)
}

// TestRemoval removes the adapter of IDs in several states. Each with an address of it receives one event, with status
// 0, and its commands fail from then on. A listener for any address receives none.
func TestRemoval(t *testing.T) {
	r := newRig(t)
	p := r.open()
	bound, listening, all := p.create(abi.SpaceTCP, 1), p.create(abi.SpaceTCP, 2), p.create(abi.SpaceTCP, 3)
	p.must(abi.CmdBindIP, abi.BindIP{Addr: at(7001), ID: bound}, nil)
	p.must(abi.CmdBindIP, abi.BindIP{Addr: at(7002), ID: listening}, nil)
	p.must(abi.CmdListen, abi.Listen{ID: listening}, nil)
	p.must(abi.CmdListen, abi.Listen{ID: all}, nil)
	route := p.resolved(abi.SpaceTCP, 7174)
	address := p.create(abi.SpaceTCP, 5)
	p.must(abi.CmdResolveIP, abi.ResolveIP{Dst: at(1), ID: address, TimeoutMS: 10_000}, nil)
	p.next(abi.EventAddrResolved)
	client := p.resolved(abi.SpaceTCP, 7002)
	p.must(abi.CmdConnect, abi.Connect{Param: abi.ConnParam{QPNum: r.newQP(ci.RC), Valid: 1}, ID: client}, nil)
	request := p.next(abi.EventConnectRequest).ID // without a number of the program: it receives no event

	require.NoError(t, r.al.Deregister(r.guid))
	want := map[uint32]bool{bound: true, listening: true, route: true, address: true, client: true}
	for range len(want) {
		e := p.next(abi.EventDeviceRemoval)
		assert.Zero(t, e.Status)
		assert.True(t, want[e.ID], "ID %d", e.ID)
		delete(want, e.ID)
	}
	for _, x := range []uint32{bound, listening, route, address, client, request} {
		assert.Equal(t, syscall.ENXIO, p.do(abi.CmdQueryRoute, abi.Query{Response: replyAddr, ID: x},
			&abi.QueryRouteResp{}))
		assert.Equal(t, syscall.ENXIO, p.do(abi.CmdDisconnect, abi.Disconnect{ID: x}, nil))
		p.must(abi.CmdDestroyID, abi.ByID{Response: replyAddr, ID: x}, &abi.EventsResp{})
	}
	p.must(abi.CmdQueryRoute, abi.Query{Response: replyAddr, ID: all}, &abi.QueryRouteResp{})
	var e abi.EventResp
	assert.Equal(t, syscall.EAGAIN, p.do(abi.CmdGetEvent, abi.GetEvent{Response: replyAddr}, &e),
		"no further event: %+v", e)
}

// TestPrivilegedPorts binds to a port below 1024 as another user than the superuser.
func TestPrivilegedPorts(t *testing.T) {
	r := newRig(t)
	for _, x := range []struct {
		uid  int
		port uint16
		want syscall.Errno
	}{{0, 80, 0}, {12345, 81, syscall.EACCES}, {12345, 1023, syscall.EACCES}, {12345, 1024, 0}, {12345, 0, 0}} {
		peer := kproxy.Peer{PID: -1, UID: x.uid}
		f, err := r.front.Open(deviceFile, peer)
		require.NoError(t, err)
		p := &program{t: t, f: f.(*File), wakes: make(chan struct{}, 100)}
		id := p.create(abi.SpaceTCP, 1)
		assert.Equal(t, x.want, p.do(abi.CmdBindIP, abi.BindIP{Addr: at(x.port), ID: id}, nil), "%+v", x)
		f.Close()
	}
}

// TestScopes encodes link-local addresses, whose zones are numbers of interfaces (sin6_scope_id).
func TestScopes(t *testing.T) {
	lo, err := net.InterfaceByName("lo")
	require.NoError(t, err)
	for text, scope := range map[string]uint32{"[fe80::1%lo]:7": uint32(lo.Index), "[fe80::1%77]:7": 77,
		"[fe80::1]:7": 0, "[fe80::1%nosuch]:7": 0, "[fd00::1]:7": 0} {
		var b abi.SockaddrIn6
		require.Equal(t, abi.SizeIPv6, abi.PutAddress(b[:], netip.MustParseAddrPort(text), abi.FamilyIPv6))
		assert.Equal(t, scope, ne.Uint32(b[24:]), text)
		a, err := abi.ParseAddress(b[:], abi.SizeIPv6)
		require.NoError(t, err)
		assert.Equal(t, scope, abi.ScopeOf(a.Addr().Zone()), text)
	}
}
