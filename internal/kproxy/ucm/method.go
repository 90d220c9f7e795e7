package ucm

import (
	"encoding/binary"
	"syscall"

	"ciddk/internal/kproxy/devices"
)

var ne = binary.NativeEndian

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
var methods = [numCommands]method{
	cmdCreateID:     define((*File).createID).at(8),
	cmdDestroyID:    define((*File).destroyID),
	cmdBindIP:       define((*File).bindIP),
	cmdResolveIP:    define((*File).resolveIP),
	cmdResolveRoute: define((*File).resolveRoute),
	cmdQueryRoute:   define((*File).queryRoute).into(roomQueryRoute),
	cmdConnect:      define((*File).connect).from(leastConnect),
	cmdListen:       define((*File).listen),
	cmdAccept:       define((*File).accept).from(leastAccept),
	cmdReject:       define((*File).reject),
	cmdDisconnect:   define((*File).disconnect),
	cmdInitQPAttr:   define((*File).initQPAttr),
	cmdGetEvent:     define((*File).getEvent).into(roomEvent),
	cmdSetOption:    define((*File).setOption),
	cmdNotify:       define((*File).notify),
	cmdJoinIPMcast:  define((*File).joinIPMcast),
	cmdLeaveMcast:   define((*File).leaveMcast),
	cmdMigrateID:    define((*File).migrateID),
	cmdQuery:        define((*File).query).at(0).into(roomQueryPath),
	cmdBind:         define((*File).bindAddr),
	cmdResolveAddr:  define((*File).resolveAddr),
	cmdJoinMcast:    define((*File).joinMcast),
}

// parse decodes the header of a write, with the checks and errors of Linux (ucma_write).
func parse(r *devices.Request) (*method, *call, error) {
	b := r.Data
	if len(b) < headerSize {
		return nil, nil, syscall.EINVAL
	}
	command, in, out := ne.Uint32(b), int(ne.Uint16(b[4:])), int(ne.Uint16(b[6:]))
	if command >= numCommands || in+headerSize > len(b) {
		return nil, nil, syscall.EINVAL
	}
	m := &methods[command]
	body := b[headerSize : headerSize+in]
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
