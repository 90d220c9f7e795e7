package ucm

import (
	"errors"
	"sync"
	"syscall"

	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
	"ciddk/internal/kproxy/devices"
	abi "ciddk/internal/ucmabi"
	"ciddk/kproxy"
	"ciddk/mad"
)

// id is an ID of a program.
type id struct {
	front  *FrontEnd
	number uint32
	cm     *cmid.ID
	typ    ci.QPType
	space  uint16

	stepMu   sync.Mutex // held during a command
	isForAll bool       // 0.0.0.0 stands for both families; stepMu guards it, and the next one
	hasBegun bool       // a connect has begun, whatever has become of it

	// FrontEnd.mu guards the fields below.
	file     *File
	uid      uint64 // of the program; 0: of a request that was not accepted yet, which has no events
	reported uint32 // events
	family   uint16 // of the address that the program has used
	listens  bool
	qpn      ci.QPN // of the connection
	reads    uint8  // READs and atomics that this end answers
	groups   map[*group]struct{}
	removed  bool // the event that the adapter was removed is with the program, and is the last one

	ackTimeout    mad.TimeExp // of the QP, if hasAckTimeout
	hasAckTimeout bool
}

// group is a group that an ID of a program has joined.
type group struct {
	number   uint32
	id       *id
	uid      uint64
	cm       *cmid.Group
	reported uint32 // events
}

// Estimates of what an object holds in the daemon, in bytes.
const (
	bytesPerID    = 4096
	bytesPerGroup = 1024
)

// File is an open rdma_cm device file: an event channel, and one client of the session core. It implements
// devices.Poller.
type File struct {
	front   *FrontEnd
	session *kproxy.Session
	channel *cmid.EventChannel

	closed bool // FrontEnd.mu guards it

	mu         sync.Mutex
	wake       func()
	isReadable bool
}

var _ devices.Poller = (*File)(nil)

// Device returns the device numbers.
func (f *File) Device() (major, minor uint32) { return deviceMajor, deviceMinor }

// SetWake implements devices.Poller.
func (f *File) SetWake(wake func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wake = wake
}

// Bell does nothing.
func (f *File) Bell() {}

// ready makes the descriptor readable if there is an event.
func (f *File) ready() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.isReadable && f.wake != nil && f.channel.Len() > 0 {
		f.isReadable = true
		f.wake()
	}
}

// quiet reports whether the descriptor was readable and no longer is.
func (f *File) quiet() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.isReadable || f.channel.Len() > 0 {
		return false
	}
	f.isReadable = false
	return true
}

// Close closes all IDs. Connections are disconnected, and requests are rejected.
func (f *File) Close() {
	f.session.BeginClose()
	u := f.front
	u.mu.Lock()
	f.closed = true
	var list []*id
	for _, x := range u.ids {
		if x.file == f {
			list = append(list, x)
		}
	}
	for _, x := range list {
		u.removeLocked(x)
	}
	u.mu.Unlock()
	for _, x := range list {
		x.close()
	}
	_ = f.channel.Close() // errors are those of closing requests that nobody received
	_ = f.session.Close() // it has logged the error
}

// Call executes a write. There is no ioctl.
func (f *File) Call(r *devices.Request) *devices.Reply {
	if r.IsIoctl {
		return devices.Fail(syscall.ENOTTY)
	}
	m, c, err := parse(r)
	if err == nil {
		err = m.run(f, c)
	}
	switch {
	case c != nil && c.reply.NeedFile:
		return &c.reply
	case err != nil && c != nil:
		c.reply.Errno = errnoOf(err)
		return &c.reply
	case err != nil:
		return devices.Fail(errnoOf(err))
	}
	return c.finish(m)
}

// find returns an ID. Errors: ENOENT; EINVAL (of another file).
func (f *File) find(number uint32) (*id, error) {
	u := f.front
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.findLocked(f, number)
}

func (u *FrontEnd) findLocked(f *File, number uint32) (*id, error) {
	x := u.ids[number]
	switch {
	case x == nil:
		return nil, syscall.ENOENT
	case x.file != f:
		return nil, syscall.EINVAL
	}
	return x, nil
}

// maxWaiting is the number of events of an ID that may wait for the program. Further commands of the ID fail, because
// the events of many commands would take memory without limit.
const maxWaiting = 64

// with executes a command of an ID, one at a time. Errors: ENOMEM (the program does not receive events); ENXIO (the
// adapter was removed, after which Linux closes the ID).
func (f *File) with(number uint32, run func(x *id) error) error {
	x, err := f.find(number)
	if err != nil {
		return err
	}
	x.stepMu.Lock()
	defer x.stepMu.Unlock()
	switch {
	case errors.Is(x.cm.Err(), cmid.ErrDeviceRemoved):
		return syscall.ENXIO
	case x.cm.Waiting() >= maxWaiting:
		return syscall.ENOMEM
	}
	return run(x)
}

// placed executes a command of an ID that has an adapter. Error: EINVAL (it has none).
func (f *File) placed(number uint32, run func(x *id) error) error {
	return f.with(number, func(x *id) error {
		if x.cm.Source().Port.Num == 0 {
			return syscall.EINVAL
		}
		return run(x)
	})
}

// add puts an ID into the table. The ID is closed after an error. Errors: ENOMEM (quota), EINVAL (the file is closed).
func (f *File) add(x *id) error {
	err := f.session.Charge("rdma_cm", bytesPerID)
	if err == nil {
		u := f.front
		u.mu.Lock()
		if f.closed {
			err = syscall.EINVAL
		} else {
			x.file, x.number = f, free(u.ids, &u.nextID)
			u.ids[x.number], u.byCM[x.cm] = x, x
		}
		u.mu.Unlock()
		if err != nil {
			f.session.Discharge(bytesPerID)
		}
	}
	if err != nil {
		_ = x.cm.Close() // the first error is the one to report
	}
	return err
}

// removeLocked takes an ID and its groups out of the tables. mu is held.
func (u *FrontEnd) removeLocked(x *id) {
	delete(u.ids, x.number)
	delete(u.byCM, x.cm)
	for g := range x.groups {
		delete(u.groups, g.number)
		delete(u.byGroup, g.cm)
	}
	x.file.session.Discharge(bytesPerID + x.groupBytes())
	x.groups = nil
}

// isListener reports whether the ID listens.
func (x *id) isListener() bool {
	x.front.mu.Lock()
	defer x.front.mu.Unlock()
	return x.listens
}

// groupBytes returns what the session was charged for the ID's groups. FrontEnd.mu is held.
func (x *id) groupBytes() int64 { return int64(len(x.groups)) * bytesPerGroup }

// close closes an ID that is not in the table any more, which leaves its groups.
func (x *id) close() {
	x.quarantine()
	_ = x.cm.Close() // the ID is gone in any case
}

// quarantine keeps the number of the connection's QP from being used again during time-wait.
func (x *id) quarantine() {
	u := x.front
	u.mu.Lock()
	qpn, uid := x.qpn, x.file.session.Peer().UID
	u.mu.Unlock()
	conn := x.cm.Conn()
	if conn == nil || qpn == 0 {
		return
	}
	guid := x.cm.Source().Port.CA
	if owner, d := u.cfg.Core.Owner(uid, guid, qpn), conn.TimeWait(); owner != nil && d > 0 {
		owner.Quarantine(guid, qpn, d)
	}
}

// portSpaces are the port spaces with the type of their QPs; that of IB is the program's choice.
var portSpaces = map[uint16]ci.QPType{abi.SpaceTCP: ci.RC, abi.SpaceUDP: ci.UD}

var qpTypes = map[uint8]ci.QPType{abi.TypeRC: ci.RC, abi.TypeUC: ci.UC, abi.TypeUD: ci.UD}

func (f *File) createID(_ *call, q *abi.CreateID, r *abi.IDResp) error {
	typ, ok := portSpaces[q.PS]
	space := map[uint16]mad.PortSpace{abi.SpaceTCP: cmid.TCP, abi.SpaceUDP: cmid.UDP, abi.SpaceIB: cmid.IB}[q.PS]
	switch {
	case q.PS == abi.SpaceIPoIB:
		return syscall.EPROTONOSUPPORT
	case q.PS == abi.SpaceIB:
		typ, ok = qpTypes[q.QPType]
	}
	if !ok {
		return syscall.EINVAL
	}
	cm, err := f.front.cfg.Manager.NewID(cmid.IDConfig{Space: space, Type: typ, Events: f.channel})
	if err != nil {
		return err
	}
	x := &id{front: f.front, cm: cm, typ: typ, space: q.PS, uid: q.UID}
	if err := f.add(x); err != nil {
		return err
	}
	r.ID = x.number
	return nil
}

func (f *File) destroyID(c *call, q *abi.ByID, r *abi.EventsResp) error {
	u := f.front
	u.mu.Lock()
	x, err := u.findLocked(f, q.ID)
	if err == nil {
		u.removeLocked(x)
	}
	u.mu.Unlock()
	if err != nil {
		return err
	}
	x.close()
	u.mu.Lock()
	r.EventsReported = x.reported
	u.mu.Unlock()
	c.reply.Quiet = f.quiet()
	return nil
}

// migrateID moves an ID of another file to this one.
func (f *File) migrateID(c *call, q *abi.MigrateID, r *abi.EventsResp) error {
	if c.request.File == nil || c.request.Number != q.FD {
		c.reply.NeedFile, c.reply.Number = true, q.FD
		return nil
	}
	from, ok := c.request.Device.(*File)
	if !ok || from.front != f.front {
		return syscall.EINVAL
	}
	if err := f.session.Charge("rdma_cm", bytesPerID); err != nil {
		return err
	}
	err := from.moveTo(f, q.ID, r)
	if err != nil {
		f.session.Discharge(bytesPerID)
	}
	c.reply.QuietFile = from.quiet()
	return err
}

// moveTo moves an ID and its events to another file, whose session was charged for it.
func (f *File) moveTo(to *File, number uint32, r *abi.EventsResp) error {
	u := f.front
	u.mu.Lock()
	defer u.mu.Unlock()
	x, err := u.findLocked(f, number)
	if err != nil {
		return err
	}
	if to.closed {
		return syscall.EINVAL
	}
	moved := x.groupBytes()
	if err := to.session.Charge("rdma_cm", moved); err != nil {
		return err
	}
	if err := x.cm.Migrate(to.channel); err != nil {
		to.session.Discharge(moved)
		return errors.Join(syscall.EINVAL, err)
	}
	f.session.Discharge(bytesPerID + moved)
	x.file = to
	r.EventsReported = x.reported
	return nil
}
