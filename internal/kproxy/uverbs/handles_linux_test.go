package uverbs

import (
	"math"
	"reflect"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

// handleFields are the kinds of the objects that the fields of requests name. A Handle is the object of the command.
var handleFields = map[string]kind{"PDHandle": kindPD, "CQHandle": kindCQ, "SendCQHandle": kindCQ,
	"RecvCQHandle": kindCQ, "SRQHandle": kindSRQ, "QPHandle": kindQP, "MRHandle": kindMR}

// namingCommand is a command with a request whose arguments are valid except for handles, which the test sets.
type namingCommand struct {
	command    uint32
	isExtended bool
	request    any // pointer
	object     kind
	room       int
}

func namingCommands(addr uint64) []namingCommand {
	qp := createQPArgs{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1, QPType: createQPRC, IsSRQ: 1}
	toInit := modifyQP{AttrMask: qpMaskState | qpMaskPKeyIndex | qpMaskPort | qpMaskAccess, QPState: 1, PortNum: 1}
	return []namingCommand{
		{cmdDeallocPD, false, &byHandle{}, kindPD, 0},
		{cmdCreateAH, false, &createAH{Response: replyAddr, Attr: ahAttr{PortNum: 1, IsGlobal: 1,
			DGID: [16]byte{10: 0xff, 11: 0xff, 12: 10, 15: 1}}}, 0, 24},
		{cmdDestroyAH, false, &byHandle{}, kindAH, 0},
		{cmdRegMR, false, &regMR{Response: replyAddr, Start: addr, Length: 4096, HCAVA: addr}, 0, 12},
		{cmdReregMR, false, &reregMR{Response: replyAddr, Flags: reregPD}, 0, 8},
		{cmdDeregMR, false, &byHandle{}, kindMR, 0},
		{cmdAllocMW, false, &allocMW{Response: replyAddr, MWType: 1}, 0, 8},
		{cmdDeallocMW, false, &byHandle{}, kindMW, 0},
		{cmdResizeCQ, false, &resizeCQ{Response: replyAddr, CQE: 10}, 0, 72},
		{cmdDestroyCQ, false, &destroyEvents{Response: replyAddr}, kindCQ, 8},
		{cmdReqNotifyCQ, false, &reqNotifyCQ{}, 0, 0},
		{cmdCreateQP, false, &createQP{Response: replyAddr, Args: qp}, 0, 128},
		{cmdCreateQP, true, &exCreateQP{Args: qp}, 0, 40},
		{cmdQueryQP, false, &queryQP{Response: replyAddr}, 0, 128},
		{cmdModifyQP, false, &toInit, 0, 0},
		{cmdModifyQP, true, &exModifyQP{Base: toInit}, 0, 8},
		{cmdDestroyQP, false, &destroyEvents{Response: replyAddr}, kindQP, 4},
		{cmdPostSend, false, &postSend{Response: replyAddr, WQESize: 128}, 0, 4},
		{cmdAttachMcast, false, &mcast{}, 0, 0}, {cmdDetachMcast, false, &mcast{}, 0, 0},
		{cmdCreateSRQ, false, &createSRQ{Response: replyAddr, MaxWR: 1, MaxSGE: 1}, 0, 96},
		{cmdCreateXSRQ, false, &createXSRQ{Response: replyAddr, MaxWR: 1, MaxSGE: 1}, 0, 96},
		{cmdModifySRQ, false, &modifySRQ{AttrMask: srqLimit}, 0, 0},
		{cmdQuerySRQ, false, &querySRQ{Response: replyAddr}, 0, 16},
		{cmdDestroySRQ, false, &destroyEvents{Response: replyAddr}, kindSRQ, 4},
	}
}

// named returns the fields that name objects, with their kinds. An SRQ of tags and its CQ do not count.
func (c *namingCommand) named() (fields []reflect.Value, kinds []kind) {
	v := reflect.ValueOf(c.request).Elem()
	for _, name := range []string{"Args", "Base"} {
		if f := v.FieldByName(name); f.IsValid() {
			v = f
		}
	}
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		k := handleFields[name]
		if name == "Handle" {
			k = c.object
		}
		if k != 0 && (c.command != cmdCreateXSRQ || name == "PDHandle") {
			fields, kinds = append(fields, v.Field(i)), append(kinds, k)
		}
	}
	return fields, kinds
}

func (c *namingCommand) bytes() []byte {
	if c.isExtended {
		return extend(c.command, reflect.ValueOf(c.request).Elem().Interface(), c.room, min(c.room, 32)).write
	}
	return encode(c.command, reflect.ValueOf(c.request).Elem().Interface(), nil, c.room)
}

// TestHandles sends each command that names objects with a handle that is unknown, is destroyed, belongs to another
// program, or is that of another kind of object, in each of its fields. The errno is that of Linux, and nothing
// changes.
func TestHandles(t *testing.T) {
	r := newRig(t)
	stranger := r.context()
	for range 3 {
		stranger.create(make([]byte, 4096))
	}
	p := r.context()
	b := make([]byte, 8192)
	o := p.create(b)
	handles := map[kind]uint32{kindPD: o.pd, kindMR: o.mr, kindCQ: o.cq, kindQP: o.qp, kindSRQ: o.srq, kindAH: o.ah,
		kindMW: o.mw}
	var gone allocPDResp
	p.must(cmdAllocPD, allocPD{replyAddr}, &gone)
	p.must(cmdDeallocPD, byHandle{gone.PDHandle}, nil)
	var foreign uint32
	for h := range stranger.f.(*File).objects {
		foreign = max(foreign, h)
	}
	live := r.live()
	wrong := func(k kind) map[uint32]syscall.Errno {
		m := map[uint32]syscall.Errno{math.MaxUint32: syscall.ENOENT, 0xdeadbeef: syscall.ENOENT,
			gone.PDHandle: syscall.ENOENT, foreign: syscall.ENOENT}
		for other, h := range handles {
			if other != k {
				m[h] = syscall.EINVAL
			}
		}
		return m
	}
	tested := map[uint32]bool{}
	for _, c := range namingCommands(ci.Bytes(b).Addr()) {
		fields, kinds := c.named()
		require.NotEmpty(t, fields)
		for i := range fields {
			fields[i].SetUint(uint64(handles[kinds[i]]))
		}
		for i, field := range fields {
			for h, want := range wrong(kinds[i]) {
				field.SetUint(uint64(h))
				reply := p.write(c.bytes())
				assert.Equal(t, want, syscall.Errno(reply.Errno), "command %d, field %d of %T, handle %#x", c.command,
					i,
					c.request, h)
				assert.Empty(t, reply.Stores)
				assert.Nil(t, reply.Bell)
			}
			field.SetUint(uint64(handles[kinds[i]]))
		}
		number := c.command
		if c.isExtended {
			number |= flagExtended
		}
		tested[number] = true
	}
	assert.Equal(t, live, r.live())

	// No other command names an object.
	unnamed := map[string]bool{"get context": true, "query device": true, "query port": true, "alloc PD": true,
		"create comp channel": true, "create CQ": true}
	for i, table := range [][]method{methods[:], extendedMethods[:]} {
		for n, m := range table {
			if m.run != nil && !unnamed[m.name] {
				assert.True(t, tested[uint32(n)|uint32(i)*flagExtended], m.name)
			}
		}
	}
	for id, m := range ioctlMethods {
		for attr, s := range m.attrs {
			if s.typ != attrObject {
				continue
			}
			for h, want := range wrong(s.kind) {
				c := namingIoctl(id, m, handles)
				for i := 0; i < len(c.attrs); i += sizeIoctlAttr {
					if ne.Uint16(c.attrs[i:]) == attr {
						ne.PutUint64(c.attrs[i+offAttrData:], uint64(h))
					}
				}
				reply := p.ioctl(c)
				assert.Equal(t, want, syscall.Errno(reply.Errno), "%v, attribute %d, handle %#x", id, attr, h)
				assert.Empty(t, reply.Stores)
			}
		}
	}
	assert.Equal(t, live, r.live())
}

// namingIoctl returns a call of a method with all attributes, whose objects exist and whose values are zero.
func namingIoctl(id methodID, m *ioctlMethod, handles map[kind]uint32) *ioctl {
	c := newIoctl(id.object, id.method)
	for attr, s := range m.attrs {
		switch s.typ {
		case attrObject:
			c.use(attr, uint64(handles[s.kind]))
		case attrIn:
			c.in(attr, make([]byte, s.least))
		case attrOut:
			c.out(attr, s.least)
		case attrNew, attrNewFile:
			c.use(attr, 0)
		}
	}
	return c
}
