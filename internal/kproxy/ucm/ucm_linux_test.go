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
	"ciddk/kproxy"
	"ciddk/mad"
)

// TestSizes compares the sizes of the structures with those of Linux's header file, as a C compiler reports them.
func TestSizes(t *testing.T) {
	for name, s := range map[string][2]int{
		"create_id": {size[createID](), 24}, "destroy_id": {size[byID](), 16}, "bind_ip": {size[bindIP](), 40},
		"bind": {size[bindAddr](), 136}, "resolve_ip": {size[resolveIP](), 64},
		"resolve_addr": {size[resolveAddr](), 272}, "query": {size[query](), 16},
		"query_route_resp": {size[queryRouteResp](), 208}, "query_addr_resp": {size[queryAddrResp](), 280},
		"query_path_resp": {size[queryPathResp](), 80}, "conn_param": {size[connParam](), 272},
		"ud_param": {size[udParam](), paramSize}, "connect": {size[connect](), 288}, "accept": {size[accept](), 296},
		"reject": {size[reject](), 264}, "init_qp_attr": {size[initQPAttr](), 16}, "qp_attr": {size[qpAttr](), 144},
		"join_ip_mcast": {size[joinIPMcast](), 48}, "join_mcast": {size[joinMcast](), 152},
		"event_resp": {size[eventResp](), 336}, "set_option": {size[setOption](), 24},
		"migrate_id": {size[migrateID](), 16},
	} {
		assert.Equal(t, s[1], s[0], name)
	}
}

// TestConnection connects two programs, whose QPs are other clients of the same user, moves the QPs' attributes, and
// disconnects.
func TestConnection(t *testing.T) {
	r := newRig(t)
	server, client := r.open(), r.open()
	l := server.create(spaceTCP, 1)
	server.must(cmdBindIP, bindIP{Addr: at(7174), ID: l}, nil)
	server.must(cmdListen, listen{ID: l, Backlog: 5}, nil)
	second := bindIP{Addr: at(7174), ID: client.create(spaceTCP, 9)}
	assert.Equal(t, syscall.EADDRINUSE, client.do(cmdBindIP, second, nil))

	c := client.resolved(spaceTCP, 7174)
	var route queryRouteResp
	client.must(cmdQueryRoute, query{Response: replyAddr, ID: c}, &route)
	assert.EqualValues(t, 1, route.NumPaths)
	assert.Equal(t, r.guid, ci.GUID(binary.BigEndian.Uint64(route.NodeGUID[:])))
	assert.Equal(t, at(7174), route.Dst)

	param := connParam{QPNum: r.newQP(ci.RC), ResponderResources: 3, InitiatorDepth: 2, RetryCount: 7, Valid: 1}
	param.PrivateDataLen = uint8(copy(param.PrivateData[:], "hello"))
	client.must(cmdConnect, connect{Param: param, ID: c}, nil)
	e := server.next(eventConnectRequest)
	assert.EqualValues(t, 1, e.UID, "the event is the listener's")
	var got connParam
	_, err := binary.Decode(e.Param[:], ne, &got)
	require.NoError(t, err)
	assert.Equal(t, param.QPNum, got.QPNum)
	assert.EqualValues(t, 2, got.ResponderResources)
	assert.EqualValues(t, 3, got.InitiatorDepth)
	assert.Equal(t, "hello", string(got.PrivateData[:5]))

	var attr qpAttr
	for state, mask := range map[uint32]uint32{1: 0x39, 2: 0x129181, 3: 0x12e01} {
		server.must(cmdInitQPAttr, initQPAttr{Response: replyAddr, ID: e.ID, QPState: state}, &attr)
		assert.Equal(t, mask, attr.Mask, "state %d: %#x", state, attr.Mask)
	}
	value := []byte{21}
	timeout := setOption{Value: ci.Bytes(value).Addr(), ID: e.ID, Name: optionAckTimeout, Len: 1}
	server.must(cmdSetOption, timeout, nil) // of a request, as of any ID
	server.must(cmdInitQPAttr, initQPAttr{Response: replyAddr, ID: e.ID, QPState: 3}, &attr)
	assert.EqualValues(t, 21, attr.Timeout)
	own := r.newQP(ci.RC)
	server.must(cmdAccept, accept{UID: 2, ID: e.ID, Param: connParam{QPNum: own, ResponderResources: 2,
		InitiatorDepth: 3, Valid: 1}}, nil)
	assert.EqualValues(t, 5, client.next(eventConnectResponse).UID)
	client.must(cmdInitQPAttr, initQPAttr{Response: replyAddr, ID: c, QPState: 2}, &attr)
	assert.Equal(t, own, attr.DestQPNum)
	client.must(cmdAccept, accept{ID: c}, nil)
	assert.EqualValues(t, 2, server.next(eventEstablished).UID)
	services := r.services()
	require.Len(t, services, 3)
	assert.Equal(t, "listener: rdma-tcp 10.0.0.1:7174", services[0])
	assert.Contains(t, services[1], "connection: rdma-tcp 10.0.0.1:7174 to 10.0.0.1:")
	assert.Contains(t, services[1], "Established")
	assert.Contains(t, services[2], "to 10.0.0.1:7174, Established")

	client.must(cmdDisconnect, disconnect{c}, nil)
	server.next(eventDisconnected)
	server.must(cmdDisconnect, disconnect{e.ID}, nil)
	client.next(eventDisconnected)
	var n eventsResp
	client.must(cmdDestroyID, byID{Response: replyAddr, ID: c}, &n)
	assert.EqualValues(t, 4, n.EventsReported)
	server.must(cmdDestroyID, byID{Response: replyAddr, ID: e.ID}, &n)
	assert.EqualValues(t, 2, n.EventsReported)
	server.must(cmdDestroyID, byID{Response: replyAddr, ID: l}, &n)
	assert.EqualValues(t, 1, n.EventsReported)
	assert.Equal(t, syscall.ENOENT, server.do(cmdDestroyID, byID{Response: replyAddr, ID: l}, &n))
	assert.Empty(t, client.wakes)
	assert.Empty(t, server.wakes)
}

// TestForeignQP connects with the number of a QP that does not exist, and with an ID of another file.
func TestForeignQP(t *testing.T) {
	r := newRig(t)
	p := r.open()
	x := p.resolved(spaceTCP, 1)
	assert.Equal(t, syscall.EINVAL, p.do(cmdConnect, connect{Param: connParam{QPNum: 77, Valid: 1}, ID: x}, nil))
	qpn := r.newQP(ci.RC)
	good := connect{Param: connParam{QPNum: qpn, Valid: 1}, ID: x}
	assert.Equal(t, syscall.EINVAL, r.open().do(cmdConnect, good, nil))
	other := self
	other.UID++
	f, err := r.front.Open(deviceFile, other)
	require.NoError(t, err)
	defer f.Close()
	q := &program{t: t, f: f.(*File), wakes: make(chan struct{}, 100)}
	q.f.SetWake(func() { q.wakes <- struct{}{} })
	x = q.resolved(spaceTCP, 1)
	assert.Equal(t, syscall.EINVAL, q.do(cmdConnect, connect{Param: connParam{QPNum: qpn, Valid: 1}, ID: x}, nil),
		"the QP is another user's")
}

// TestDatagrams looks up a QP, and joins a group.
func TestDatagrams(t *testing.T) {
	r := newRig(t)
	server, client := r.open(), r.open()
	l := server.create(spaceUDP, 1)
	server.must(cmdBindIP, bindIP{Addr: at(7174), ID: l}, nil)
	server.must(cmdListen, listen{ID: l}, nil)
	c := client.resolved(spaceUDP, 7174)
	client.must(cmdConnect, connect{Param: connParam{Valid: 1}, ID: c}, nil)
	e := server.next(eventConnectRequest)
	own := r.newQP(ci.UD)
	server.must(cmdAccept, accept{UID: 2, ID: e.ID, Param: connParam{QPNum: own, Valid: 1}}, nil)
	var ud udParam
	e = client.next(eventEstablished)
	_, err := binary.Decode(e.Param[:], ne, &ud)
	require.NoError(t, err)
	assert.Equal(t, own, ud.QPNum)
	assert.EqualValues(t, 1, ud.AH.IsGlobal)

	group := joinIPMcast{Response: replyAddr, UID: 7, ID: c}
	ne.PutUint16(group.Addr[:], familyIPv4)
	copy(group.Addr[4:], []byte{239, 1, 2, 3})
	var id idResp
	client.must(cmdJoinIPMcast, group, &id)
	e = client.next(eventMulticastJoin)
	assert.EqualValues(t, 7, e.UID)
	assert.Equal(t, id.ID, e.ID)
	var n eventsResp
	client.must(cmdLeaveMcast, byID{Response: replyAddr, ID: id.ID}, &n)
	assert.EqualValues(t, 1, n.EventsReported)
	assert.Equal(t, syscall.ENOENT, client.do(cmdLeaveMcast, byID{Response: replyAddr, ID: id.ID}, &n))
	client.must(cmdDestroyID, byID{Response: replyAddr, ID: c}, &n)
	assert.EqualValues(t, 4, n.EventsReported, "events of groups count for the ID, too")
}

// TestGivenUp accepts a request whose sender has destroyed its ID meanwhile.
func TestGivenUp(t *testing.T) {
	r := newRig(t)
	server, client := r.open(), r.open()
	l := server.create(spaceTCP, 1)
	server.must(cmdBindIP, bindIP{Addr: at(7174), ID: l}, nil)
	server.must(cmdListen, listen{ID: l}, nil)
	c := client.resolved(spaceTCP, 7174)
	client.must(cmdConnect, connect{Param: connParam{QPNum: r.newQP(ci.RC), Valid: 1}, ID: c}, nil)
	e := server.next(eventConnectRequest)
	var n eventsResp
	client.must(cmdDestroyID, byID{Response: replyAddr, ID: c}, &n)
	reply := accept{UID: 2, ID: e.ID, Param: connParam{QPNum: r.newQP(ci.RC), Valid: 1}}
	require.Eventually(t, func() bool {
		x, err := server.f.find(e.ID)
		return err == nil && x.cm.Conn().State() == cm.StateTimeWait
	}, time.Minute, time.Millisecond)
	assert.Equal(t, syscall.EINVAL, server.do(cmdAccept, reply, nil))
	server.must(cmdDestroyID, byID{Response: replyAddr, ID: e.ID}, &n)
	assert.Zero(t, n.EventsReported)
}

// TestMigrate moves an ID with an event to another file.
func TestMigrate(t *testing.T) {
	r := newRig(t)
	from, to := r.open(), r.open()
	x := from.create(spaceTCP, 3)
	from.must(cmdResolveIP, resolveIP{Dst: at(1), ID: x, TimeoutMS: 10_000}, nil)
	<-from.wakes
	from.wakes <- struct{}{}
	data := encode(cmdMigrateID, migrateID{Response: replyAddr, ID: x, FD: 9}, 4)
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
	to.next(eventAddrResolved)
	assert.Equal(t, syscall.EINVAL, from.do(cmdResolveRoute, resolveRoute{ID: x}, nil))
	assert.Empty(t, to.wakes)
}

// TestOptions sets options, whose values are in the program's memory.
func TestOptions(t *testing.T) {
	r := newRig(t)
	p := r.open()
	x := p.create(spaceTCP, 3)
	value := []byte{1, 0, 0, 0}
	addr := ci.Bytes(value).Addr()
	datagram := p.create(spaceUDP, 4)
	timeout := setOption{Value: addr, ID: datagram, Name: optionAckTimeout, Len: 1}
	assert.Equal(t, syscall.EINVAL, p.do(cmdSetOption, timeout, nil))
	for name, n := range optionSizes {
		p.must(cmdSetOption, setOption{Value: addr, ID: x, Name: name, Len: n}, nil)
	}
	assert.Equal(t, syscall.EFAULT, p.do(cmdSetOption, setOption{Value: 8, ID: x, Len: 1}, nil))
	assert.Equal(t, syscall.EINVAL, p.do(cmdSetOption, setOption{Value: addr, ID: x, Len: 2}, nil))
	assert.Equal(t, syscall.ENOSYS, p.do(cmdSetOption, setOption{Value: addr, ID: x, Level: 1, Name: 2, Len: 72}, nil))
	assert.Equal(t, syscall.ENOSYS, p.do(cmdGetOption, none{}, nil))
}

// TestHeaders sends commands with wrong sizes.
func TestHeaders(t *testing.T) {
	p := newRig(t).open()
	call := func(b []byte) syscall.Errno { return p.f.Call(&devices.Request{Data: b}).Errno }
	good := encode(cmdCreateID, createID{Response: replyAddr, PS: spaceTCP}, 4)
	assert.Equal(t, syscall.EINVAL, call(good[:7]))
	assert.Equal(t, syscall.EINVAL, call(good[:20]), "less than the header announces")
	assert.Equal(t, syscall.EINVAL, call(encode(numCommands, none{}, 0)))
	assert.Equal(t, syscall.ENOSPC, call(encode(cmdCreateID, createID{PS: spaceTCP}, 3)))
	assert.Equal(t, syscall.ENOTTY, p.f.Call(&devices.Request{IsIoctl: true}).Errno)
	assert.Equal(t, syscall.EINVAL, p.do(cmdCreateID, createID{Response: replyAddr, PS: 1}, &idResp{}))
}

// TestQuota creates IDs until the client has no memory for another one. Closing the file releases everything.
func TestQuota(t *testing.T) {
	r := newRig(t)
	p := r.open()
	count := 0
	for ; ; count++ {
		errno := p.do(cmdCreateID, createID{UID: 1, Response: replyAddr, PS: spaceTCP}, &idResp{})
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
		group := joinIPMcast{Response: replyAddr, UID: 7, ID: x}
		ne.PutUint16(group.Addr[:], familyIPv4)
		copy(group.Addr[4:], []byte{239, 1, 2, last})
		var reply idResp
		before := p.f.channel.Len()
		if errno = p.do(cmdJoinIPMcast, group, &reply); errno == 0 {
			require.Eventually(t, func() bool { return p.f.channel.Len() > before }, time.Minute, time.Millisecond)
		}
		return reply.ID, errno
	}
	x, other := p.resolved(spaceUDP, 7174), p.resolved(spaceUDP, 7174)
	_, errno := join(other, 200)
	require.Zero(t, errno)
	for i := range maxWaiting - 1 {
		number, errno := join(x, byte(1+i))
		require.Zero(t, errno)
		p.must(cmdLeaveMcast, byID{Response: replyAddr, ID: number}, &eventsResp{})
	}
	_, errno = join(x, 100)
	require.Zero(t, errno)
	_, errno = join(x, 101)
	require.Equal(t, syscall.ENOMEM, errno)
	_, errno = join(other, 201)
	require.Zero(t, errno, "another ID has no events")
	p.next(eventMulticastJoin) // of the other one; those of groups that it has left are not shown
	p.next(eventMulticastJoin)
	_, errno = join(x, 101)
	require.Zero(t, errno)
	p.must(cmdDestroyID, byID{Response: replyAddr, ID: x}, &eventsResp{})
	groups := func() int {
		r.front.mu.Lock()
		defer r.front.mu.Unlock()
		require.Len(t, r.front.byGroup, len(r.front.groups))
		return len(r.front.groups)
	}
	assert.Equal(t, 2, groups())
	p.must(cmdDestroyID, byID{Response: replyAddr, ID: other}, &eventsResp{})
	assert.Zero(t, groups())
}

// TestLoopback binds and resolves addresses of the machine that no port has, and those that one has.
func TestLoopback(t *testing.T) {
	sockaddr := func(text string, port uint16) (a sockaddrIn6) {
		ip := netip.MustParseAddr(text)
		family := uint16(familyIPv6)
		if ip.Is4() {
			family = familyIPv4
		}
		putAddress(a[:], netip.AddrPortFrom(ip, port), family)
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
			l := server.create(spaceTCP, 1)
			server.must(cmdBindIP, bindIP{Addr: sockaddr(x.listen, 7174), ID: l}, nil)
			server.must(cmdListen, listen{ID: l, Backlog: 5}, nil)
			var route queryRouteResp
			server.must(cmdQueryRoute, query{Response: replyAddr, ID: l}, &route)
			assert.Equal(t, sockaddr(x.bound, 7174), route.Src)

			c := client.create(spaceTCP, 5)
			client.must(cmdResolveIP, resolveIP{Dst: sockaddr(x.to, 7174), ID: c, TimeoutMS: 10_000}, nil)
			client.next(eventAddrResolved)
			client.must(cmdResolveRoute, resolveRoute{ID: c, TimeoutMS: 10_000}, nil)
			client.next(eventRouteResolved)
			client.must(cmdQueryRoute, query{Response: replyAddr, ID: c}, &route)
			assert.Equal(t, sockaddr(x.remote, 7174), route.Dst)
			client.must(cmdConnect, connect{Param: connParam{QPNum: r.newQP(ci.RC), Valid: 1}, ID: c}, nil)
			server.next(eventConnectRequest)
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
	x := p.create(spaceTCP, 5)
	p.must(cmdResolveIP, resolveIP{Dst: at(7174), ID: x, TimeoutMS: 10_000}, nil)
	p.next(eventAddrResolved)
	rec := mad.PathRecord{DGID: [16]byte{10: 0xff, 11: 0xff, 12: 10, 15: 1}, SGID: [16]byte{10: 0xff, 11: 0xff, 12: 10,
		15: 1}, DLID: 77, SL: 3, PKey: 0xffff, HopLimit: 9, TrafficClass: 5, FlowLabel: 0x12345, MTU: mad.MTU512,
		LifeTime: 14, Reversible: true, NumbPath: 1}
	memory := make([]byte, 3*72)
	option := setOption{Value: ci.Bytes(memory).Addr(), ID: x, Level: levelIB, Name: optionIBPath, Len: 3 * 72}
	put := func(i int, flags uint32, rec *mad.PathRecord) {
		ne.PutUint32(memory[72*i:], flags)
		rec.Put(memory[72*i+8:])
	}
	set := func(change func(o *setOption)) syscall.Errno {
		o := option
		change(&o)
		return p.do(cmdSetOption, o, nil)
	}
	none := func(*setOption) {}
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
	assert.Equal(t, syscall.EFAULT, set(func(o *setOption) { o.Value = 8 }))
	assert.Equal(t, syscall.EINVAL, set(func(o *setOption) { o.Len-- }))
	assert.Equal(t, syscall.EINVAL, set(func(o *setOption) { o.Len = (maxPaths + 1) * 72 }))
	assert.Equal(t, syscall.EINVAL, set(func(o *setOption) { o.Len = 0 }))
	assert.Equal(t, syscall.EINVAL, set(func(o *setOption) { o.Len = 72 }), "the first has further flags")
	assert.Equal(t, syscall.ENOENT, set(func(o *setOption) { o.ID = 99 }))
	fresh := p.create(spaceTCP, 6)
	assert.Equal(t, syscall.EINVAL, set(func(o *setOption) { o.ID = fresh }), "an ID without a device")

	require.Zero(t, set(none))
	e := p.next(eventRouteResolved)
	assert.EqualValues(t, 5, e.UID)
	assert.Zero(t, e.Status)
	assert.Equal(t, syscall.EINVAL, set(none), "the route is resolved")
	var got queryPathResp
	p.must(cmdQuery, query{Response: replyAddr, ID: x, Option: queryPath}, &got)
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
	x := owner.resolved(spaceUDP, 7174)
	join := joinIPMcast{Response: replyAddr, UID: 6, Addr: at(0), ID: x}
	copy(join.Addr[4:], []byte{239, 1, 2, 3})
	var group idResp
	owner.must(cmdJoinIPMcast, join, &group)
	owner.next(eventMulticastJoin)
	var left eventsResp
	assert.Equal(t, syscall.EINVAL, other.do(cmdLeaveMcast, byID{Response: replyAddr, ID: group.ID}, &left))
	assert.Equal(t, syscall.ENOENT, other.do(cmdLeaveMcast, byID{Response: replyAddr, ID: group.ID + 1}, &left))
	owner.must(cmdLeaveMcast, byID{Response: replyAddr, ID: group.ID}, &left)
	assert.EqualValues(t, 1, left.EventsReported)
}

// TestRemoval removes the adapter of IDs in several states. Each with an address of it receives one event, with status
// 0, and its commands fail from then on. A listener for any address receives none.
func TestRemoval(t *testing.T) {
	r := newRig(t)
	p := r.open()
	bound, listening, all := p.create(spaceTCP, 1), p.create(spaceTCP, 2), p.create(spaceTCP, 3)
	p.must(cmdBindIP, bindIP{Addr: at(7001), ID: bound}, nil)
	p.must(cmdBindIP, bindIP{Addr: at(7002), ID: listening}, nil)
	p.must(cmdListen, listen{ID: listening}, nil)
	p.must(cmdListen, listen{ID: all}, nil)
	route := p.resolved(spaceTCP, 7174)
	address := p.create(spaceTCP, 5)
	p.must(cmdResolveIP, resolveIP{Dst: at(1), ID: address, TimeoutMS: 10_000}, nil)
	p.next(eventAddrResolved)
	client := p.resolved(spaceTCP, 7002)
	p.must(cmdConnect, connect{Param: connParam{QPNum: r.newQP(ci.RC), Valid: 1}, ID: client}, nil)
	request := p.next(eventConnectRequest).ID // without a number of the program: it receives no event

	require.NoError(t, r.al.Deregister(r.guid))
	want := map[uint32]bool{bound: true, listening: true, route: true, address: true, client: true}
	for range len(want) {
		e := p.next(eventDeviceRemoval)
		assert.Zero(t, e.Status)
		assert.True(t, want[e.ID], "ID %d", e.ID)
		delete(want, e.ID)
	}
	for _, x := range []uint32{bound, listening, route, address, client, request} {
		assert.Equal(t, syscall.ENXIO, p.do(cmdQueryRoute, query{Response: replyAddr, ID: x}, &queryRouteResp{}))
		assert.Equal(t, syscall.ENXIO, p.do(cmdDisconnect, disconnect{x}, nil))
		p.must(cmdDestroyID, byID{Response: replyAddr, ID: x}, &eventsResp{})
	}
	p.must(cmdQueryRoute, query{Response: replyAddr, ID: all}, &queryRouteResp{})
	var e eventResp
	assert.Equal(t, syscall.EAGAIN, p.do(cmdGetEvent, getEvent{replyAddr}, &e), "no further event: %+v", e)
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
		id := p.create(spaceTCP, 1)
		assert.Equal(t, x.want, p.do(cmdBindIP, bindIP{Addr: at(x.port), ID: id}, nil), "%+v", x)
		f.Close()
	}
}

// TestScopes encodes link-local addresses, whose zones are numbers of interfaces (sin6_scope_id).
func TestScopes(t *testing.T) {
	lo, err := net.InterfaceByName("lo")
	require.NoError(t, err)
	for text, scope := range map[string]uint32{"[fe80::1%lo]:7": uint32(lo.Index), "[fe80::1%77]:7": 77,
		"[fe80::1]:7": 0, "[fe80::1%nosuch]:7": 0, "[fd00::1]:7": 0} {
		var b sockaddrIn6
		require.Equal(t, sizeIPv6, putAddress(b[:], netip.MustParseAddrPort(text), familyIPv6))
		assert.Equal(t, scope, ne.Uint32(b[24:]), text)
		a, err := parseAddress(b[:], sizeIPv6)
		require.NoError(t, err)
		assert.Equal(t, scope, scopeOf(a.Addr().Zone()), text)
	}
}
