package ucm

import (
	"encoding/binary"
	"syscall"

	"ciddk/internal/kproxy/devices"
	abi "ciddk/internal/ucmabi"
)

var (
	ne = binary.NativeEndian
	be = binary.BigEndian
)

// A method declares a command: the sizes of its request and reply, and the function that executes it.
type method struct {
	request int // bytes of the structure
	least   int // bytes of it that a program must send; those that it does not send are zero
	room    int // bytes of the reply for which a program must have room
	address int // offset of the reply's address in the request; -1: there is no reply
	run     func(f *File, c *call) error
}

// call is a command in execution.
type call struct {
	request *devices.Request
	core    []byte // the request without its header, zero-extended
	room    int    // bytes for the reply
	resp    []byte
	reply   devices.Reply
}

// define declares a command with the structures Q and R. The address of the reply is at the beginning of the request.
func define[Q, R any](run func(f *File, c *call, q *Q, r *R) error) method {
	m := method{request: size[Q](), least: size[Q](), room: size[R](), address: -1}
	if m.room > 0 {
		m.address = 0
	}
	m.run = func(f *File, c *call) error {
		q, r := new(Q), new(R)
		if _, err := binary.Decode(c.core, ne, q); err != nil {
			return syscall.EINVAL
		}
		if err := run(f, c, q, r); err != nil {
			return err
		}
		if c.resp == nil {
			c.resp, _ = binary.Append(nil, ne, r) // the structures have fixed sizes
		}
		return nil
	}
	return m
}

// size returns the bytes of a structure.
func size[T any]() int { return binary.Size(new(T)) }

// from declares that older programs send only least bytes of the request.
func (m method) from(least int) method {
	m.least = least
	return m
}

// into declares that programs need room only for the first bytes of the reply.
func (m method) into(room int) method {
	m.room = room
	return m
}

// at declares the offset of the reply's address in the request.
func (m method) at(offset int) method {
	m.address = offset
	return m
}

// methods declares the commands. GET_OPTION does not exist in Linux either.
var methods = [abi.NumCommands]method{
	abi.CmdCreateID:     define((*File).createID).at(8),
	abi.CmdDestroyID:    define((*File).destroyID),
	abi.CmdBindIP:       define((*File).bindIP),
	abi.CmdResolveIP:    define((*File).resolveIP),
	abi.CmdResolveRoute: define((*File).resolveRoute),
	abi.CmdQueryRoute:   define((*File).queryRoute).into(abi.RoomQueryRoute),
	abi.CmdConnect:      define((*File).connect).from(abi.LeastConnect),
	abi.CmdListen:       define((*File).listen),
	abi.CmdAccept:       define((*File).accept).from(abi.LeastAccept),
	abi.CmdReject:       define((*File).reject),
	abi.CmdDisconnect:   define((*File).disconnect),
	abi.CmdInitQPAttr:   define((*File).initQPAttr),
	abi.CmdGetEvent:     define((*File).getEvent).into(abi.RoomEvent),
	abi.CmdSetOption:    define((*File).setOption),
	abi.CmdNotify:       define((*File).notify),
	abi.CmdJoinIPMcast:  define((*File).joinIPMcast),
	abi.CmdLeaveMcast:   define((*File).leaveMcast),
	abi.CmdMigrateID:    define((*File).migrateID),
	abi.CmdQuery:        define((*File).query).at(0).into(abi.RoomQueryPath),
	abi.CmdBind:         define((*File).bindAddr),
	abi.CmdResolveAddr:  define((*File).resolveAddr),
	abi.CmdJoinMcast:    define((*File).joinMcast),
	abi.CmdWriteEvent:   define((*File).writeEvent),
}

// parse decodes the header of a write, with the checks and errors of Linux (ucma_write).
func parse(r *devices.Request) (*method, *call, error) {
	b := r.Data
	if len(b) < abi.HeaderSize {
		return nil, nil, syscall.EINVAL
	}
	command, in, out := ne.Uint32(b), int(ne.Uint16(b[4:])), int(ne.Uint16(b[6:]))
	if command >= abi.NumCommands || in+abi.HeaderSize > len(b) {
		return nil, nil, syscall.EINVAL
	}
	m := &methods[command]
	body := b[abi.HeaderSize : abi.HeaderSize+in]
	switch {
	case m.run == nil:
		return nil, nil, syscall.ENOSYS
	case out < m.room:
		return nil, nil, syscall.ENOSPC
	case len(body) < m.least:
		return nil, nil, syscall.EINVAL
	}
	core := make([]byte, m.request)
	copy(core, body)
	return m, &call{request: r, core: core, room: out}, nil
}

// finish completes the reply of a command that succeeded.
func (c *call) finish(m *method) *devices.Reply {
	r := &c.reply
	r.Result = int64(len(c.request.Data))
	if m.address >= 0 && len(c.resp) > 0 {
		r.Stores = append(r.Stores, devices.Store{Addr: ne.Uint64(c.core[m.address:]),
			Data: c.resp[:min(len(c.resp), c.room)]})
	}
	return r
}
