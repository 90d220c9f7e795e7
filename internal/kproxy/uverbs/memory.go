package uverbs

import (
	"errors"
	"math"
	"os"
	"syscall"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy"
)

// pageMask covers the offset in a page.
const pageMask = 4096 - 1

// The rights of regions and windows (ib_access_flags).
const (
	accessLocalWrite = 1 << iota
	accessRemoteWrite
	accessRemoteRead
	accessRemoteAtomic
	accessMWBind
	accessZeroBased
	accessOnDemand
	accessHugePages
	accessFlushGlobal
	accessFlushPersistent

	accessOptional = 0x3ff << 20 // rights that a kernel may ignore, such as relaxed ordering
	// accessIgnored are hints. Linux's Soft-RoCE ignores that of huge pages, too.
	accessIgnored = accessOptional | accessHugePages
	accessKnown   = accessLocalWrite | accessRemoteWrite | accessRemoteRead | accessRemoteAtomic | accessMWBind |
		accessZeroBased | accessFlush

	accessFlush = accessFlushGlobal | accessFlushPersistent
)

// access returns the rights of a region.
func access(flags uint32) (ci.Access, error) {
	flags &^= accessIgnored
	if flags&^accessKnown != 0 {
		return 0, syscall.EINVAL
	}
	if flags&(accessRemoteWrite|accessRemoteAtomic) != 0 && flags&accessLocalWrite == 0 {
		return 0, syscall.EINVAL
	}
	return rights(flags), nil
}

// rights returns rights without validation.
func rights(flags uint32) (a ci.Access) {
	for flag, x := range map[uint32]ci.Access{accessLocalWrite: ci.LocalWrite, accessRemoteWrite: ci.RemoteWrite,
		accessRemoteRead: ci.RemoteRead, accessRemoteAtomic: ci.RemoteAtomic, accessMWBind: ci.BindWindow,
		accessZeroBased: ci.ZeroBased, accessFlushGlobal: ci.FlushGlobal,
		accessFlushPersistent: ci.FlushPersistent} {
		if flags&flag != 0 {
			a |= x
		}
	}
	return a
}

// accessFlags is the inverse of rights.
func accessFlags(a ci.Access) (flags uint32) {
	for flag := uint32(1); flag <= accessFlushPersistent; flag <<= 1 {
		if a&rights(flag&^accessZeroBased) != 0 {
			flags |= flag
		}
	}
	return flags
}

func (f *File) allocPD(c *call, _ *allocPD, r *allocPDResp) error {
	created, err := do[schema.Created](f, schema.CmdAllocatePD, &schema.AllocatePD{CA: f.ca, User: f.private(c)})
	if err != nil {
		return err
	}
	c.answer(&created.User)
	r.PDHandle = f.add(&object{kind: kindPD, handle: created.Handle})
	return nil
}

// memory returns the memory of a registration, which begins at the address iova for SGEs and peers: at 0 if that is
// requested, as ibv_reg_mr(3) describes it. Linux's Soft-RoCE ignores the flag.
func memory(start, length, iova uint64, a ci.Access) (m schema.Memory, err error) {
	if err := checkRange(start, length); err != nil {
		return m, err
	}
	if iova == 0 && start != 0 {
		a |= ci.ZeroBased
	}
	if a&ci.ZeroBased != 0 {
		iova = 0
	}
	return schema.Memory{Addr: start, Length: length, IOVA: iova, Access: a}, nil
}

// firstKernel is the first address of the kernel's half of the address space.
const firstKernel = 1 << 63

// checkRange returns the errors of Linux for ranges that no process has (ib_umem_get).
func checkRange(start, length uint64) error {
	end := start + length
	switch {
	case end < start, end > math.MaxUint64-pageMask:
		return syscall.EINVAL
	case length == 0 && start&pageMask == 0: // no page; elsewhere, no bytes are in one page
		return syscall.EINVAL
	case (end+pageMask)/(pageMask+1)-start/(pageMask+1) > math.MaxUint32:
		return syscall.EINVAL
	case end > firstKernel:
		return syscall.EFAULT
	}
	return nil
}

// notMapped replaces the status of memory that the process does not have, or may not write to, by the errno.
func notMapped(err error) error {
	if errors.Is(err, ci.InvalidPermission) {
		return syscall.EFAULT
	}
	return err
}

func (f *File) regMR(c *call, q *regMR, r *regMRResp) error {
	if q.Start&pageMask != q.HCAVA&pageMask {
		return syscall.EINVAL
	}
	a, err := access(q.AccessFlags)
	if err != nil {
		return err
	}
	pd, err := f.handleOf(kindPD, q.PDHandle)
	if err != nil {
		return err
	}
	m, err := memory(q.Start, q.Length, q.HCAVA, a)
	if err != nil {
		return err
	}
	region, err := f.register(pd, m, c)
	if err != nil || region == nil {
		return notMapped(err)
	}
	r.LKey, r.RKey = uint32(region.Region.LKey), uint32(region.Region.RKey)
	o := &object{kind: kindMR, handle: region.Handle}
	o.isZeroBased.Store(a&ci.ZeroBased != 0)
	r.MRHandle = f.add(o)
	return nil
}

// register registers memory. If the program has shared it, it is mapped, and copied only if that is not possible. The
// region is nil if the carrier repeats the call.
func (f *File) register(pd schema.Handle, m schema.Memory, c *call) (*schema.RegionReply, error) {
	if q := c.request; q.File != nil {
		shared := m
		shared.Shared, shared.FileOffset = true, q.Offset
		r, err := f.session.Do(&kproxy.Call{Command: schema.CmdRegisterMR,
			Body: &schema.RegisterMR{PD: pd, Memory: shared}, Files: []*os.File{q.File}})
		if err == nil {
			return r.Body.(*schema.RegionReply), nil
		}
	}
	return copied(f, c, func() (*schema.RegionReply, error) {
		m.FileOffset = c.request.Token
		return do[schema.RegionReply](f, schema.CmdRegisterMR, &schema.RegisterMR{PD: pd, Memory: m})
	})
}

// copied executes a registration of memory that is reached by copies. If the system does not let the daemon copy, the
// carrier does: it gets a socket for copies, and repeats the call, which is the result nil.
func copied(f *File, c *call, register func() (*schema.RegionReply, error)) (*schema.RegionReply, error) {
	r, err := register()
	if c.request.Token != 0 || !kproxy.NeedsCopies(err) {
		return r, err
	}
	served, again := f.session.Do(&kproxy.Call{Command: schema.CmdServeCopies, Body: &schema.ServeCopies{}})
	if again != nil { // it has the socket already
		return nil, err
	}
	c.reply.Copies, c.reply.Errno = served.Files[0], errnoOf(notMapped(err))
	c.reply.Unsent = func() { f.session.Undo(served) }
	return nil, nil
}

// The changes of a region (enum ib_mr_rereg_flags).
const (
	reregTranslation = 1 << iota
	reregPD
	reregAccess
)

func (f *File) reregMR(c *call, q *reregMR, r *reregMRResp) error {
	switch {
	case q.Flags == 0, q.Flags&reregTranslation != 0 && q.Start&pageMask != q.HCAVA&pageMask:
		return syscall.EINVAL
	case q.Flags&^(reregTranslation|reregPD|reregAccess) != 0:
		return syscall.EOPNOTSUPP
	}
	o, err := f.lookup(kindMR, q.MRHandle)
	if err != nil {
		return err
	}
	modify := &schema.ModifyMR{MR: o.handle}
	rights, err := f.changedRights(o, q)
	if err != nil {
		return err
	}
	if q.Flags&reregPD != 0 {
		modify.Set |= uint32(ci.MRFieldPD)
		if modify.PD, err = f.handleOf(kindPD, q.PDHandle); err != nil {
			return err
		}
	}
	if q.Flags&reregTranslation != 0 {
		modify.Set |= uint32(ci.MRFieldMemory)
		if modify.Memory, err = memory(q.Start, q.Length, q.HCAVA, rights); err != nil {
			return err
		}
	} else if q.Flags&reregAccess != 0 {
		modify.Memory.Access = rights
	}
	if q.Flags&(reregAccess|reregTranslation) != 0 {
		modify.Set |= uint32(ci.MRFieldAccess)
	}
	region, err := copied(f, c, func() (*schema.RegionReply, error) {
		if q.Flags&reregTranslation != 0 {
			modify.Memory.FileOffset = c.request.Token
		}
		return do[schema.RegionReply](f, schema.CmdModifyMR, modify)
	})
	if err != nil || region == nil {
		return notMapped(err)
	}
	r.LKey, r.RKey = uint32(region.Region.LKey), uint32(region.Region.RKey)
	if q.Flags&reregAccess != 0 {
		o.isZeroBased.Store(q.AccessFlags&accessZeroBased != 0)
	}
	return nil
}

// changedRights returns the rights that a region is to have. Its first address follows from a translation, and from
// the flag of the registration or of this one. Without a translation it stays.
func (f *File) changedRights(o *object, q *reregMR) (a ci.Access, err error) {
	isZeroBased := o.isZeroBased.Load()
	if q.Flags&reregAccess != 0 {
		if a, err = access(q.AccessFlags); err != nil {
			return 0, err
		}
		isZeroBased = a&ci.ZeroBased != 0
	}
	if q.Flags&(reregAccess|reregTranslation) == reregAccess|reregTranslation {
		return a, nil
	}
	now, err := do[schema.QueryMRReply](f, schema.CmdQueryMR, &schema.MR{MR: o.handle})
	switch {
	case err != nil:
		return 0, err
	case q.Flags&reregAccess != 0:
		return a&^ci.ZeroBased | now.Access&ci.ZeroBased, nil
	case isZeroBased:
		return now.Access | ci.ZeroBased, nil
	}
	return now.Access &^ ci.ZeroBased, nil
}

func (f *File) allocMW(c *call, q *allocMW, r *allocMWResp) error {
	pd, err := f.handleOf(kindPD, q.PDHandle)
	if err != nil {
		return err
	}
	if t := ci.MWType(q.MWType); t != ci.MWType1 && t != ci.MWType2 {
		return syscall.EINVAL
	}
	w, err := do[schema.WindowReply](f, schema.CmdCreateMW, &schema.CreateMW{PD: pd, Type: uint32(q.MWType),
		User: f.private(c)})
	if err != nil {
		return err
	}
	c.answer(&w.User)
	r.RKey = uint32(w.Key)
	r.MWHandle = f.add(&object{kind: kindMW, handle: w.Handle})
	return nil
}
