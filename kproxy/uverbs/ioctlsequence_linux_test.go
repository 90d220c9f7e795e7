package uverbs

import (
	"maps"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/hca/reference/rings"
	"ciddk/kproxy/devices"
)

// The handles of the objects of a program that creates one of each kind in this order.
const (
	firstPD = iota
	firstCQ
	firstQP
	firstSRQ
	firstMR
	firstAH
	firstMW
)

// ioctlShapes returns functions that return ioctls with valid arguments, of the objects above. Those that create
// something come in the same order.
func ioctlShapes() []func() *ioctl {
	limits := make([]byte, sizeQPCap)
	for i, n := range []uint32{4, 4, 1, 1, 16} {
		ne.PutUint32(limits[4*i:], n)
	}
	qp := func(typ uint64) func() *ioctl {
		return func() *ioctl {
			return newIoctl(typeQP, 0).use(attrHandle, 0).use(attrQPPD, firstPD).use(attrQPSendCQ, firstCQ).
				use(attrQPRecvCQ, firstCQ).u64(attrQPUserHandle, 88).in(attrQPCap, limits).u64(attrQPType, typ).
				u32(attrQPFlags, qpSignalAll).out(attrQPRespCap, 32).out(attrQPRespNumber, 4).
				out(attrDriverOut, rings.VerbsQPSize)
		}
	}
	destroy := func(typ, method uint16, handle uint64, room int) func() *ioctl {
		return func() *ioctl {
			c := newIoctl(typ, method).use(attrHandle, handle)
			if room > 0 {
				c.out(attrDestroyResp, room)
			}
			return c
		}
	}
	return []func() *ioctl{
		func() *ioctl { return newIoctl(typeDevice, 3).out(attrContextVectors, 4).out(attrContextSupport, 8) },
		func() *ioctl { return ioctlCQ(10) },
		qp(createQPUD),
		func() *ioctl {
			return newIoctl(typeSRQ, 0).use(attrHandle, 0).use(attrSRQPD, firstPD).u64(attrSRQUserHandle, 99).
				u32(attrSRQMaxWR, 10).u32(attrSRQMaxSGE, 2).u32(attrSRQLimit, 0).u64(attrSRQType, 0).
				out(attrSRQRespMaxWR, 4).out(attrSRQRespMaxSGE, 4).out(attrDriverOut, 64)
		},
		qp(createQPRC),
		func() *ioctl { return ioctlCQ(20).use(attrCQChannel, channelFD) },
		func() *ioctl { return newIoctl(typeAsyncEvent, 0).use(attrHandle, 0) },
		func() *ioctl {
			return newIoctl(typeDevice, 1).u64(attrInfoType, typeCQ).out(attrInfoTotal, 4).out(attrInfoList, 64)
		},
		func() *ioctl { return newIoctl(typeDevice, 2).u64(attrPortNum, 1).out(attrPortResp, sizePortResp) },
		func() *ioctl {
			return newIoctl(typeDevice, 5).u64(attrTableEntrySize, sizeGIDEntry).out(attrTableEntries, 1024).
				out(attrTableCount, 8)
		},
		func() *ioctl {
			return newIoctl(typeDevice, 6).u64(attrEntryPort, 1).u64(attrEntryIndex, 0).out(attrEntryResp, sizeGIDEntry)
		},
		func() *ioctl {
			return newIoctl(typeMR, 2).use(attrAdvicePD, firstPD).u64(attrAdvice, 0).u32(attrAdviceFlags, 0).
				in(attrAdviceList, make([]byte, 2*sizeAdviceSGE))
		},
		func() *ioctl {
			return newIoctl(typeMR, 3).use(attrHandle, firstMR).out(attrQueryMRLKey, 4).out(attrQueryMRRKey, 4).
				out(attrQueryMRLength, 8).out(attrQueryMRIOVA, 8)
		},
		destroy(typeMW, 0, firstMW, 0), destroy(typeAH, 0, firstAH, 0), destroy(typeMR, 1, firstMR, 0),
		destroy(typeSRQ, 1, firstSRQ, 4), destroy(typeQP, 1, firstQP, 4), destroy(typeCQ, 1, firstCQ, 8),
		destroy(typePD, 0, firstPD, 0),
	}
}

// channelFD is the number of the descriptor of the last completion channel that a write has created.
const channelFD = replyAddr

// The fields of an attribute that a step can replace, and the bits of the last byte of a step.
var attrFields = []struct{ at, size int }{{offAttrData, 4}, {0, 2}, {2, 2}, {offAttrFlags, 2}, {6, 2},
	{offAttrData + 4, 4}, {offAttrData, 8}}

const (
	dropLast   = 1 << iota // the last attribute is missing
	repeatLast             // the last attribute is there twice
	noMemory               // the memory of the values cannot be read
)

// mutate replaces a field of an attribute, if the ioctl has the attribute, and its number of attributes.
func (c *ioctl) mutate(which byte, value uint32, change byte) {
	field := attrFields[int(which>>5)%len(attrFields)]
	if i := sizeIoctlAttr * int(which&31); i < len(c.attrs) {
		b := c.attrs[i+field.at:]
		switch field.size {
		case 2:
			ne.PutUint16(b, uint16(value))
		case 4:
			ne.PutUint32(b, value)
		default:
			ne.PutUint64(b, uint64(int64(int32(value))))
		}
	}
	last := max(0, len(c.attrs)-sizeIoctlAttr)
	if change&dropLast != 0 {
		c.attrs = c.attrs[:last]
	} else if change&repeatLast != 0 {
		c.attrs = append(c.attrs, slices.Clone(c.attrs[last:])...)
	}
	if change&noMemory != 0 {
		c.memory = nil
	}
}

// hasRoom reports whether a store is in an attribute, or in the room for its value.
func (c *ioctl) hasRoom(s devices.Store) bool {
	inside := func(addr, size uint64) bool {
		return s.Addr >= addr && s.Addr-addr <= size && uint64(len(s.Data)) <= size-(s.Addr-addr)
	}
	for i := 0; i < len(c.attrs); i += sizeIoctlAttr {
		room := uint64(ne.Uint16(c.attrs[i+2:]))
		itself := uint64(ioctlAddr + sizeIoctlHeader + i)
		if inside(itself, sizeIoctlAttr) || inside(ne.Uint64(c.attrs[i+offAttrData:]), room) {
			return true
		}
	}
	return false
}

// FuzzIoctlSequence executes sequences of ioctls and writes that have the shapes of valid ones. Each takes four bytes
// of the input: the shape; what is replaced; its value; and changes of the whole. After the sequence, the objects that
// the device lists are destroyed. No sequence may stop the daemon, store where the program has no room, leave anything
// behind, or change what another program has.
func FuzzIoctlSequence(f *testing.F) {
	const keep = 31
	memory := make([]byte, 8192)
	ioctls, writes := ioctlShapes(), shapes(ci.Bytes(memory).Addr())
	at := func(command uint32) byte {
		return byte(len(ioctls) + slices.IndexFunc(writes, func(s shape) bool { return s.command == command }))
	}
	add := func(steps ...byte) {
		var b []byte
		for _, s := range steps {
			b = append(b, s, keep, 0, 0)
		}
		f.Add(b)
	}
	all := []byte{0, at(cmdAllocPD), 1, 2, 3, at(cmdRegMR), at(cmdCreateAH), at(cmdAllocMW)}
	add(append(all, 13, 14, 15, 16, 17, 18, 19)...)
	add(append(all, 19, 18, 17, 16, 15, 14, 13)...)
	add(append(all, 4, 6, 6, 7, 8, 9, 10, 11, 12, at(cmdAttachMcast), at(cmdCreateChan), 5)...)
	add(0, 0, at(cmdCreateChan), 5, 6, at(cmdResizeCQ), at(cmdDestroyCQ))
	r := newRig(f)
	other := newBystander(r)
	f.Fuzz(func(t *testing.T, input []byte) {
		r.t = t
		p := r.open()
		for n := 0; len(input) >= 4 && n < 60; n++ {
			which, value, change := input[1], values[int(input[2])%len(values)], input[3]
			if i := int(input[0]) % (len(ioctls) + len(writes)); i < len(ioctls) {
				c := ioctls[i]()
				c.mutate(which, value, change)
				reply := p.ioctl(c)
				checkReply(t, reply, func(s devices.Store) bool { return c.hasRoom(s) })
			} else {
				s := writes[i-len(ioctls)]
				word := int(which)
				if word == keep {
					word = len(memory)
				}
				reply := p.write(s.mutated(word, value, change))
				checkReply(t, reply, func(x devices.Store) bool {
					return x.Addr != replyAddr || len(x.Data) <= s.room+maxChange
				})
			}
			input = input[4:]
		}
		p.destroyAll(t, r)
		p.f.Close()
		other.check(t)
	})
}

// checkReply checks a reply whose stores must be in the room that a program has.
func checkReply(t *testing.T, r *devices.Reply, hasRoom func(devices.Store) bool) {
	if r.Errno != 0 {
		require.Empty(t, r.Stores)
		require.Empty(t, r.Files)
		require.NotEqual(t, syscall.EIO, r.Errno, "the session has ended")
	}
	for _, s := range r.Stores {
		require.True(t, hasRoom(s), "%#x: %d bytes", s.Addr, len(s.Data))
	}
}

// destroyAll destroys all objects of the program, as a program does that asks for their handles. Then the session has
// no memory and no queues of it.
func (p *program) destroyAll(t *testing.T, r *rig) {
	f := p.f.(*File)
	for _, o := range f.objects {
		for group := range o.mcasts {
			p.must(cmdDetachMcast, group, nil)
		}
	}
	for _, x := range []struct {
		typ, method uint16
		room        int
	}{{typeMW, 0, 0}, {typeQP, 1, 4}, {typeSRQ, 1, 4}, {typeCQ, 1, 8}, {typeAH, 0, 0}, {typeMR, 1, 0}, {typePD, 0, 0}} {
		list := p.mustIoctl(newIoctl(typeDevice, 1).u64(attrInfoType, uint64(x.typ)).out(attrInfoTotal, 4).
			out(attrInfoList, 4096))[attrInfoList]
		for ; len(list) > 0; list = list[4:] {
			c := newIoctl(x.typ, x.method).use(attrHandle, uint64(ne.Uint32(list)))
			if x.room > 0 {
				c.out(attrDestroyResp, x.room)
			}
			p.mustIoctl(c)
		}
	}
	assert.Empty(t, f.objects)
	clients := r.core.Status().Clients
	require.Len(t, clients, 2, "this program and the bystander")
	c := &clients[1]
	assert.Zero(t, c.MemoryBytes)
	assert.Zero(t, c.QueueBytes)
	assert.Zero(t, c.ServiceBytes)
	assert.LessOrEqual(t, c.Objects["ca"], 1)
	assert.LessOrEqual(t, c.Objects["pd"], 1, "that of CQs")
	assert.LessOrEqual(t, c.Objects["event queue"], 1+len(f.channels))
	maps.DeleteFunc(c.Objects, func(kind string, _ int) bool {
		return kind == "ca" || kind == "pd" || kind == "event queue"
	})
	assert.Empty(t, c.Objects)
}
