package uverbs

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/kproxy/devices"
)

// FuzzCommands executes sequences of commands on a file with a context. The input is a list of commands, each preceded
// by its length in a byte. No command may stop the daemon, store more than the program has room for, or leave anything
// behind.
func FuzzCommands(f *testing.F) {
	add := func(commands ...[]byte) {
		var b []byte
		for _, c := range commands {
			b = append(append(b, byte(len(c))), c...)
		}
		f.Add(b)
	}
	context := encode(cmdGetContext, getContext{replyAddr}, nil, 8)
	pd := encode(cmdAllocPD, allocPD{replyAddr}, nil, 8)
	cq := encode(cmdCreateCQ, createCQ{Response: replyAddr, CQE: 10, CompChannel: noCompChannel}, nil, 24)
	qp := encode(cmdCreateQP, createQP{Response: replyAddr, Args: createQPArgs{SendCQHandle: 1, RecvCQHandle: 1,
		MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1, QPType: createQPRC}}, nil, 64)
	srq := encode(cmdCreateSRQ, createSRQ{Response: replyAddr, MaxWR: 10, MaxSGE: 2}, nil, 40)
	b := make([]byte, 8192)
	addr := ci.Bytes(b).Addr()
	mr := encode(cmdRegMR, regMR{Response: replyAddr, Start: addr, Length: 4096, HCAVA: addr, AccessFlags: 1}, nil, 12)
	add(context, pd, cq, qp, encode(cmdModifyQP, modifyQP{QPHandle: 2,
		AttrMask: qpMaskState | qpMaskPKeyIndex | qpMaskPort | qpMaskAccess, QPState: 1, PortNum: 1}, nil, 0),
		encode(cmdQueryQP, queryQP{Response: replyAddr, QPHandle: 2}, nil, 128),
		encode(cmdDestroyQP, destroyEvents{Response: replyAddr, Handle: 2}, nil, 4))
	add(context, pd, srq, encode(cmdModifySRQ, modifySRQ{SRQHandle: 1, AttrMask: srqMaxWR, MaxWR: 100},
		make([]byte, 8), 0), encode(cmdDestroySRQ, destroyEvents{Response: replyAddr, Handle: 1}, nil, 4))
	add(context, pd, mr, encode(cmdReregMR, reregMR{Response: replyAddr, MRHandle: 1, Flags: 7, Start: addr,
		Length: 8192, HCAVA: addr, AccessFlags: 1}, nil, 8), encode(cmdDeregMR, byHandle{1}, nil, 0))
	add(context, pd, encode(cmdAllocMW, allocMW{Response: replyAddr, MWType: 2}, nil, 8),
		encode(cmdCreateAH, createAH{Response: replyAddr, Attr: ahAttr{PortNum: 1, IsGlobal: 1}}, nil, 16))
	add(context, cq, encode(cmdResizeCQ, resizeCQ{Response: replyAddr, CQE: 100}, nil, 24),
		encode(cmdReqNotifyCQ, reqNotifyCQ{}, nil, 0), encode(cmdCreateChan, createCompChannel{replyAddr}, nil, 4),
		encode(cmdDestroyCQ, destroyEvents{Response: replyAddr}, nil, 8))
	add(context, encode(cmdQueryDevice, queryDevice{replyAddr}, nil, 176),
		encode(cmdQueryPort, queryPort{Response: replyAddr, PortNum: 1}, nil, 40))
	r := newRig(f)
	f.Fuzz(func(t *testing.T, input []byte) {
		r.t = t
		p := r.open()
		for n := 0; len(input) > 0 && n < 50; n++ {
			size := min(int(input[0]), len(input)-1)
			command := input[1 : 1+size]
			input = input[1+size:]
			reply := p.f.Call(&devices.Request{Data: command})
			for _, d := range reply.Files {
				d.File.Close()
			}
			if reply.Errno != 0 {
				require.Empty(t, reply.Stores)
				continue
			}
			for _, s := range reply.Stores {
				require.LessOrEqual(t, len(s.Data), 4*0xffff+8*0xffff)
			}
		}
		p.f.Close()
		assert.Empty(t, r.live())
	})
}
