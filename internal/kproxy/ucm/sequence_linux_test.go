package ucm

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/kproxy/devices"
	abi "ciddk/internal/ucmabi"
)

// shape is a command with valid arguments of the first ID, and the bytes of its reply.
type shape struct {
	command uint32
	request any
	room    int
}

// shapes returns commands of each kind, for IDs 1 to 3. qpn is the number of a QP of the user.
func shapes(qpn uint32) []shape {
	const timeout = 1000
	param := abi.ConnParam{QPNum: qpn, Valid: 1, ResponderResources: 1, InitiatorDepth: 1, RetryCount: 7,
		PrivateDataLen: 3}
	group := abi.JoinIPMcast{Response: replyAddr, UID: 9, Addr: at(0), ID: 1}
	copy(group.Addr[4:], []byte{239, 1, 2, 3})
	var storage abi.SockaddrStorage
	here := at(7174)
	copy(storage[:], here[:])
	list := []shape{
		{abi.CmdCreateID, abi.CreateID{UID: 1, Response: replyAddr, PS: abi.SpaceTCP}, 4},
		{abi.CmdCreateID, abi.CreateID{UID: 2, Response: replyAddr, PS: abi.SpaceUDP}, 4},
		{abi.CmdCreateID, abi.CreateID{UID: 3, Response: replyAddr, PS: abi.SpaceIB, QPType: abi.TypeRC}, 4},
		{abi.CmdGetEvent, abi.GetEvent{Response: replyAddr}, 336},
	}
	for id := uint32(1); id <= 3; id++ {
		group.ID = id
		list = append(list,
			shape{abi.CmdBindIP, abi.BindIP{Addr: here, ID: id}, 0},
			shape{abi.CmdBind, abi.BindAddr{ID: id, AddrSize: abi.SizeIPv4, Addr: storage}, 0},
			shape{abi.CmdListen, abi.Listen{ID: id, Backlog: 2}, 0},
			shape{abi.CmdResolveIP, abi.ResolveIP{Dst: here, ID: id, TimeoutMS: timeout}, 0},
			shape{abi.CmdResolveAddr, abi.ResolveAddr{ID: id, TimeoutMS: timeout, DstSize: abi.SizeIPv4, Dst: storage},
				0},
			shape{abi.CmdResolveRoute, abi.ResolveRoute{ID: id, TimeoutMS: timeout}, 0},
			shape{abi.CmdQueryRoute, abi.Query{Response: replyAddr, ID: id}, 208},
			shape{abi.CmdQuery, abi.Query{Response: replyAddr, ID: id, Option: abi.QueryPath}, 80},
			shape{abi.CmdConnect, abi.Connect{Param: param, ID: id}, 0},
			shape{abi.CmdAccept, abi.Accept{UID: 4, Param: param, ID: id}, 0},
			shape{abi.CmdReject, abi.Reject{ID: id, PrivateDataLen: 2}, 0},
			shape{abi.CmdDisconnect, abi.Disconnect{ID: id}, 0},
			shape{abi.CmdInitQPAttr, abi.InitQPAttr{Response: replyAddr, ID: id, QPState: 1}, 144},
			shape{abi.CmdNotify, abi.Notify{ID: id, Event: abi.CommEstablished}, 0},
			shape{abi.CmdWriteEvent, abi.WriteEvent{ID: id, Event: abi.EventUser}, 0},
			shape{abi.CmdJoinIPMcast, group, 4},
			shape{abi.CmdJoinMcast, abi.JoinMcast{Response: replyAddr, UID: 8, ID: id, AddrSize: abi.SizeIPv4,
				Addr: storage}, 4},
			shape{abi.CmdLeaveMcast, abi.ByID{Response: replyAddr, ID: id}, 4},
			shape{abi.CmdMigrateID, abi.MigrateID{Response: replyAddr, ID: id, FD: otherFD}, 4},
			shape{abi.CmdDestroyID, abi.ByID{Response: replyAddr, ID: id}, 4})
	}
	return list
}

// otherFD is the number that the other file has for a program that moves an ID to its own file.
const otherFD = 9

// values replace a word of a command: IDs, families, and numbers at the limits of what commands accept.
var values = []uint32{0, 1, 2, 3, 4, 7, 8, 10, 27, 255, 256, abi.SpaceUDP, 1<<24 - 1, 1 << 31, 1<<32 - 1}

// The bits of the last byte of a step: the length of the command, the file on which it is executed, and whether the
// step first waits for an event of that file.
const (
	stepShorter = 1 << 2
	stepWords   = 3
	stepOther   = 1 << 6
	stepWait    = 1 << 7
)

// FuzzSequence executes sequences of commands that have the shapes of valid ones on two files, so that IDs of one
// connect to those of the other and move between them. Each takes four bytes of the input: the shape; the word of the
// request that is replaced, or none; its value; and the bits above. No sequence may stop the daemon, have a reply
// beyond its room, or leave anything behind: IDs, listeners, or what the session was charged for them.
func FuzzSequence(f *testing.F) {
	const keep = 255
	r := newRig(f)
	list := shapes(r.newQP(ci.RC))
	find := func(command uint32, id int) byte {
		for i, s := range list {
			if s.command == command {
				if id--; id <= 0 {
					return byte(i)
				}
			}
		}
		panic(command)
	}
	type step struct {
		command uint32
		id      int
		bits    byte
	}
	add := func(steps ...step) {
		var b []byte
		for _, s := range steps {
			b = append(b, find(s.command, s.id), keep, 0, s.bits)
		}
		f.Add(b)
	}
	const other = stepOther
	add(step{abi.CmdCreateID, 1, 0}, step{abi.CmdBindIP, 1, 0}, step{abi.CmdListen, 1, 0}, step{abi.CmdCreateID, 1,
		other},
		step{abi.CmdResolveIP, 2, other}, step{abi.CmdGetEvent, 1, other | stepWait}, step{abi.CmdResolveRoute, 2,
			other},
		step{abi.CmdGetEvent, 1, other | stepWait}, step{abi.CmdConnect, 2, other}, step{abi.CmdGetEvent, 1, stepWait},
		step{abi.CmdAccept, 3, 0}, step{abi.CmdGetEvent, 1, other | stepWait}, step{abi.CmdAccept, 2, other},
		step{abi.CmdInitQPAttr, 2, other}, step{abi.CmdQueryRoute, 3, 0}, step{abi.CmdDisconnect, 3, 0},
		step{abi.CmdMigrateID, 2, 0}, step{abi.CmdDestroyID, 2, 0})
	add(step{abi.CmdCreateID, 2, 0}, step{abi.CmdResolveAddr, 1, 0}, step{abi.CmdGetEvent, 1, stepWait},
		step{abi.CmdJoinIPMcast, 1, 0},
		step{abi.CmdGetEvent, 1, stepWait}, step{abi.CmdMigrateID, 1, other}, step{abi.CmdLeaveMcast, 1, other},
		step{abi.CmdDestroyID, 1, other})
	add(step{abi.CmdCreateID, 3, 0}, step{abi.CmdBind, 1, 0}, step{abi.CmdListen, 1, 0}, step{abi.CmdReject, 1, 0},
		step{abi.CmdNotify, 1, 0}, step{abi.CmdQuery, 1, 0}, step{abi.CmdJoinMcast, 1, 0})
	f.Fuzz(func(t *testing.T, input []byte) {
		r.t = t
		r.front.nextID, r.front.nextGroup = 0, 0
		files := [2]*program{r.open(), r.open()}
		for n := 0; len(input) >= 4 && n < 60; n++ {
			s, bits := list[int(input[0])%len(list)], input[3]
			b := s.mutated(int(input[1]), values[int(input[2])%len(values)], bits)
			p, q := files[0], files[1]
			if bits&stepOther != 0 {
				p, q = q, p
			}
			if bits&stepWait != 0 {
				p.pause()
			}
			input = input[4:]
			p.execute(t, &s, b, q)
		}
		for number, x := range r.idsNow() {
			r := x.Call(&devices.Request{Data: encode(abi.CmdDestroyID, abi.ByID{Response: replyAddr, ID: number}, 4)})
			require.Zero(t, r.Errno)
		}
		for _, c := range r.core.Status().Clients {
			require.Zero(t, c.ServiceBytes, "all IDs are destroyed")
		}
		for _, p := range files {
			p.f.Close()
		}
		assert.Empty(t, r.front.ids)
		assert.Empty(t, r.front.groups)
		assert.Empty(t, r.front.byCM)
		assert.Empty(t, r.front.byGroup)
		assert.Empty(t, r.services())
	})
}

// idsNow returns the IDs with their files.
func (r *rig) idsNow() map[uint32]*File {
	r.front.mu.Lock()
	defer r.front.mu.Unlock()
	files := map[uint32]*File{}
	for number, x := range r.front.ids {
		files[number] = x.file
	}
	return files
}

// pause waits a moment for an event, which need not come.
func (p *program) pause() {
	select {
	case w := <-p.wakes:
		p.wakes <- w
	case <-time.After(20 * time.Millisecond):
	}
}

// execute executes a command as a carrier does. other is the file that the program names by otherFD.
func (p *program) execute(t *testing.T, s *shape, b []byte, other *program) {
	q := &devices.Request{Data: b}
	reply := p.f.Call(q)
	if reply.NeedFile {
		require.Equal(t, uint32(abi.CmdMigrateID), s.command)
		q.Number, q.File, q.Device = reply.Number, os.Stdin, nil
		if reply.Number == otherFD {
			q.Device = other.f
		}
		reply = p.f.Call(q)
		require.False(t, reply.NeedFile)
	}
	if reply.Quiet {
		<-p.wakes
	}
	if reply.QuietFile {
		<-other.wakes
	}
	if reply.Errno != 0 {
		require.Empty(t, reply.Stores)
		require.NotEqual(t, syscall.EIO, reply.Errno, "the session has ended")
		return
	}
	for _, x := range reply.Stores {
		require.LessOrEqual(t, len(x.Data), s.room)
	}
}

// mutated returns the command with a word of the request replaced, if it has that many, and its length changed.
func (s *shape) mutated(word int, value uint32, bits byte) []byte {
	b := encode(s.command, s.request, s.room)
	if i := abi.HeaderSize + 4*word; i+4 <= len(b) {
		ne.PutUint32(b[i:], value)
	}
	if n := 4 * int(bits&stepWords); bits&stepShorter != 0 {
		b = b[:max(abi.HeaderSize, len(b)-n)]
	} else {
		b = append(b, make([]byte, n)...)
	}
	ne.PutUint16(b[4:], uint16(len(b)-abi.HeaderSize))
	return b
}
