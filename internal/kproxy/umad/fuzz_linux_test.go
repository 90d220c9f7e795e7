package umad

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/kproxy/devices"
	"ciddk/mad"
)

// FuzzCalls executes sequences of calls on a file. The input is a list of calls: an operation, a length of two bytes,
// and bytes. No call may stop the daemon, store more than the program has room for, or leave anything behind.
func FuzzCalls(f *testing.F) {
	const opWrite, opRead = 0, 1
	ioctls := []uint64{ioctlRegister, ioctlUnregister, ioctlEnablePKey, ioctlRegister2}
	sizes := map[uint64]int{ioctlRegister: sizeRegister, ioctlUnregister: 4, ioctlRegister2: sizeRegister2}
	type step struct {
		op byte
		b  []byte
	}
	add := func(steps ...step) {
		var b []byte
		for _, s := range steps {
			b = append(append(b, s.op, byte(len(s.b)), byte(len(s.b)>>8)), s.b...)
		}
		f.Add(b)
	}
	h := header{timeout: 1}
	h.to.AV.DLID, h.to.QPN = 1, 1
	write := func(class mad.Class, m mad.Method, lid ci.LID) step {
		h := h
		h.to.AV.DLID = lid
		return step{opWrite, append(h.encode(sizeHeader), smp(class, m, mad.AttrNodeInfo)...)}
	}
	register := func(q registration) step { return step{2, q.encode()} }
	read := step{opRead, []byte{0, 2}}
	add(step{4, nil}, register(registration{qpn: 1, class: vendor, version: 1, mask: methodBits(bitGet)}),
		write(vendor, mad.Get, 1), read, step{3, make([]byte, 4)}, read)
	add(step{4, nil}, register(registration{class: mad.ClassSubnetDirected, version: 1, mask: methodBits(bitGet)}),
		register(registration{class: mad.ClassSubnetLID, version: 1, mask: methodBits(bitGet)}),
		write(mad.ClassSubnetDirected, mad.Get, 0xffff), read, write(mad.ClassSubnetLID, mad.Set, 2), read)
	add(step{5, make([]byte, sizeRegister2)}, write(mad.ClassPerformance, mad.Get, 1), read)
	r := newRig(f)
	f.Fuzz(func(t *testing.T, input []byte) {
		file, err := r.front.Open("/dev/infiniband/umad0", self)
		require.NoError(t, err)
		u := file.(*File)
		for n := 0; len(input) > 2 && n < 50; n++ {
			op, size := input[0], min(int(input[1])|int(input[2])<<8, len(input)-3)
			b := input[3 : 3+size]
			input = input[3+size:]
			switch {
			case op == opWrite:
				u.Call(&devices.Request{Data: b})
			case op == opRead:
				room := uint64(0)
				for i, x := range b[:min(2, len(b))] {
					room |= uint64(x) << (8 * i)
				}
				reply := u.Read(argument, room)
				for _, s := range reply.Stores {
					assert.LessOrEqual(t, uint64(len(s.Data)), room)
				}
			default:
				request := ioctls[int(op-2)%len(ioctls)]
				q := &devices.Request{IsIoctl: true, Ioctl: request, Operand: argument}
				q.Memory = []devices.Range{{Addr: argument, Size: uint64(len(b)), Data: b}}
				reply := u.Call(q)
				for _, m := range reply.NeedMemory {
					assert.EqualValues(t, sizes[request], m.Size)
				}
				for _, s := range reply.Stores {
					assert.LessOrEqual(t, s.Addr+uint64(len(s.Data)), uint64(argument+sizes[request]))
				}
			}
		}
		u.Close()
		assert.Empty(t, u.receivers)
		assert.Empty(t, r.core.Sessions())
	})
}
