package uverbs

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/kproxy/devices"
)

// shape is a command with valid arguments, whose handles are 0, and the bytes of its reply. Handles of the commands
// before it are small numbers.
type shape struct {
	command uint32
	request any
	data    int // bytes of driver data
	room    int
}

// shapes returns one command of each kind that a program sends after it has opened the context. Registrations are of
// the memory at addr.
func shapes(addr uint64) []shape {
	global := ahAttr{PortNum: 1, IsGlobal: 1, DGID: [16]byte{10: 0xff, 11: 0xff, 12: 10, 15: 1}}
	group := mcast{GID: [16]byte{0: 0xff, 1: 0x0e, 15: 1}}
	const toInit = qpMaskState | qpMaskPKeyIndex | qpMaskPort | qpMaskAccess
	return []shape{
		{cmdAllocPD, allocPD{replyAddr}, 0, 8}, {cmdDeallocPD, byHandle{}, 0, 0},
		{cmdRegMR, regMR{Response: replyAddr, Start: addr, Length: 4096, HCAVA: addr, AccessFlags: 1}, 0, 12},
		{cmdReregMR, reregMR{Response: replyAddr, Flags: 7, Start: addr, Length: 4096, HCAVA: addr, AccessFlags: 1},
			0, 8},
		{cmdDeregMR, byHandle{}, 0, 0},
		{cmdAllocMW, allocMW{Response: replyAddr, MWType: 2}, 0, 8}, {cmdDeallocMW, byHandle{}, 0, 0},
		{cmdCreateChan, createCompChannel{replyAddr}, 0, 4},
		{cmdCreateCQ, createCQ{Response: replyAddr, CQE: 10, CompChannel: noCompChannel}, 0, 72},
		{cmdResizeCQ, resizeCQ{Response: replyAddr, CQE: 100}, 0, 72}, {cmdReqNotifyCQ, reqNotifyCQ{}, 0, 0},
		{cmdDestroyCQ, destroyEvents{Response: replyAddr}, 0, 8},
		{cmdCreateQP, createQP{Response: replyAddr, Args: createQPArgs{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1,
			MaxRecvSGE: 1, QPType: createQPUD}}, 0, 128},
		{cmdModifyQP, modifyQP{AttrMask: toInit, QPState: 1, PortNum: 1}, 0, 0},
		{cmdQueryQP, queryQP{Response: replyAddr}, 0, 128}, {cmdPostSend, postSend{Response: replyAddr}, 0, 4},
		{cmdDestroyQP, destroyEvents{Response: replyAddr}, 0, 4},
		{cmdCreateSRQ, createSRQ{Response: replyAddr, MaxWR: 10, MaxSGE: 2}, 0, 96},
		{cmdModifySRQ, modifySRQ{AttrMask: srqMaxWR, MaxWR: 100}, 8, 0},
		{cmdQuerySRQ, querySRQ{Response: replyAddr}, 0, 16}, {cmdDestroySRQ, destroyEvents{Response: replyAddr}, 0, 4},
		{cmdCreateAH, createAH{Response: replyAddr, Attr: global}, 0, 24}, {cmdDestroyAH, byHandle{}, 0, 0},
		{cmdAttachMcast, group, 0, 0}, {cmdDetachMcast, group, 0, 0},
		{cmdQueryDevice, queryDevice{replyAddr}, 0, 176},
		{cmdQueryPort, queryPort{Response: replyAddr, PortNum: 1}, 0, 40},
	}
}

// values replace a word of a command: handles, and numbers at the limits of what commands accept.
var values = []uint32{0, 1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 255, 4096, 1<<20 - 1, 1 << 31, 1<<32 - 1}

// FuzzSequence executes sequences of commands that have the shapes of valid ones. Each takes four bytes of the input:
// the shape; the word of the request that is replaced, or none; its value; and how the lengths are changed. No sequence
// may stop the daemon, have a reply beyond its room, leave anything behind, or change what another program has.
func FuzzSequence(f *testing.F) {
	const keep = 255
	memory := make([]byte, 8192)
	list := shapes(ci.Bytes(memory).Addr())
	at := func(command uint32) byte {
		for i, s := range list {
			if s.command == command {
				return byte(i)
			}
		}
		panic(command)
	}
	add := func(commands ...uint32) {
		var b []byte
		for _, c := range commands {
			b = append(b, at(c), keep, 0, 0)
		}
		f.Add(b)
	}
	add(cmdAllocPD, cmdCreateCQ, cmdCreateQP, cmdModifyQP, cmdAttachMcast, cmdQueryQP, cmdDetachMcast, cmdDestroyQP)
	add(cmdAllocPD, cmdRegMR, cmdReregMR, cmdDeregMR, cmdAllocMW, cmdCreateAH, cmdDestroyAH, cmdDeallocPD)
	add(cmdCreateChan, cmdCreateCQ, cmdResizeCQ, cmdReqNotifyCQ, cmdDestroyCQ, cmdQueryDevice, cmdQueryPort)
	add(cmdAllocPD, cmdCreateSRQ, cmdModifySRQ, cmdQuerySRQ, cmdDestroySRQ)
	f.Add([]byte{at(cmdAllocPD), keep, 0, 0, at(cmdCreateCQ), keep, 0, 0, at(cmdCreateQP), 4, 1, 0,
		at(cmdCreateQP), 5, 1, 0, at(cmdDestroyQP), 2, 2, 9, at(cmdDeallocPD), 0, 15, 0})
	r := newRig(f)
	other := newBystander(r)
	f.Fuzz(func(t *testing.T, input []byte) {
		r.t = t
		p := r.open()
		open := p.f.Call(&devices.Request{Data: encode(cmdGetContext, getContext{replyAddr}, nil, 72)})
		require.Zero(t, open.Errno)
		closeAll(open)
		for n := 0; len(input) >= 4 && n < 100; n++ {
			s := list[int(input[0])%len(list)]
			data := s.mutated(int(input[1]), values[int(input[2])%len(values)], input[3])
			input = input[4:]
			reply := p.f.Call(&devices.Request{Data: data})
			closeAll(reply)
			if reply.Errno != 0 {
				require.Empty(t, reply.Stores)
				require.Empty(t, reply.Files)
				require.NotEqual(t, syscall.EIO, reply.Errno, "the session has ended")
				continue
			}
			for _, store := range reply.Stores {
				if store.Addr == replyAddr {
					require.LessOrEqual(t, len(store.Data), s.room+maxChange)
				}
			}
		}
		p.f.Close()
		other.check(t)
	})
}

// maxChange is the largest number of bytes by which a mutation changes a length.
const maxChange = 28

// mutated returns the command with a word of the request replaced, if it has that many, and its lengths changed: bits 0
// to 2 are words that are added or, with bit 3, taken away; bits 4 to 6 words of room for the reply, with bit 7 less.
func (s *shape) mutated(word int, value uint32, change byte) []byte {
	room := s.room
	if n := 4 * int(change>>4&7); change&0x80 == 0 {
		room += n
	} else {
		room = max(0, room-n)
	}
	b := encode(s.command, s.request, make([]byte, s.data), room)
	if i := headerSize + 4*word; i+4 <= len(b) {
		ne.PutUint32(b[i:], value)
	}
	if n := 4 * int(change&7); change&8 == 0 {
		b = append(b, make([]byte, n)...)
	} else {
		b = b[:max(headerSize, len(b)-n)]
	}
	ne.PutUint16(b[4:], uint16(len(b)/4))
	return b
}

// closeAll closes the descriptors of a reply.
func closeAll(r *devices.Reply) {
	for _, d := range r.Files {
		d.File.Close()
	}
}
