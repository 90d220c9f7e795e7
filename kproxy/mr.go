package kproxy

import (
	"os"
	"slices"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

// memory returns the memory that a request describes, for one region. It is charged until its release.
func (c *Session) memory(verb string, m *schema.Memory, files []*os.File) (*mapping, error) {
	x := charge{memory: int64(min(m.Length, 1<<62))}
	if m.Shared {
		x.mappings, x.space = 1, x.memory
	}
	if err := c.chargeMore(verb, x); err != nil {
		return nil, err
	}
	found, err := c.reach(verb, m, files)
	if err != nil {
		c.chargeLess(x)
		return nil, err
	}
	found.charge, found.regions = x, 1
	return found, nil
}

func (c *Session) reach(verb string, m *schema.Memory, files []*os.File) (*mapping, error) {
	switch {
	case m.Shared && len(files) != 1:
		return nil, failf(verb, ci.InvalidParameter, "shared memory comes with one descriptor, %d received", len(files))
	case !m.Shared && len(files) != 0:
		return nil, failf(verb, ci.InvalidParameter, "%d descriptors for memory that is not shared", len(files))
	case m.Shared:
		found, err := mapShared(files[0], m.Addr, m.FileOffset, m.Length, m.Access&ci.LocalWrite != 0)
		if err != nil {
			return nil, &ci.Error{Verb: verb, Status: ci.InvalidPermission, Detail: "shared memory", Err: err}
		}
		return found, nil
	}
	mem, err := c.proc.memory(place{m.Addr, m.FileOffset}, m.Length, m.Access)
	return &mapping{mem: mem}, err
}

// errReadOnly is the error for rights to write on memory that was shared for reading.
func errReadOnly(verb string) error {
	return failf(verb, ci.InvalidPermission, "the descriptor of the shared memory does not permit writing")
}

// checkRights returns an error for a right that no memory of a process can have.
func checkRights(verb string, a ci.Access) error {
	if a&ci.FlushPersistent != 0 {
		return failf(verb, ci.Unsupported, "FlushPersistent: memory of a process is not ci.PersistentMemory here")
	}
	return nil
}

func regionReply(h schema.Handle, r ci.Region) *Result {
	return &Result{Body: &schema.RegionReply{Handle: h, Region: schema.Region{Addr: r.Addr, Length: r.Length,
		LKey: r.LKey, RKey: r.RKey}}}
}

func (c *Session) registerMR(r *schema.RegisterMR, files []*os.File) (*Result, error) {
	const verb = "PD.RegisterMR"
	pd, err := c.lookup(verb, schema.KindPD, r.PD)
	if err != nil {
		return nil, err
	}
	m := &r.Memory
	if err := checkRights(verb, m.Access); err != nil {
		return nil, err
	}
	o := &object{kind: schema.KindMR, ca: pd.ca}
	var reply *Result
	return c.create(verb, o, pd, private{}, func() (destroyable, error) {
		found, err := c.memory(verb, m, files)
		if err != nil {
			return nil, err
		}
		mr, err := pd.al.(*accesslayer.PD).NewMR(ci.MRCreate{Memory: found.mem, IOVA: m.IOVA, Access: m.Access})
		if err != nil {
			c.release(found)
			return nil, err
		}
		o.memories, reply = []*mapping{found}, regionReply(o.handle, mr.Region())
		return mr, nil
	}, func() (*Result, *schema.UserBufferReply) { return reply, nil })
}

func (c *Session) registerSMR(r *schema.RegisterSMR) (*Result, error) {
	const verb = "PD.RegisterSMR"
	pd, err := c.lookup(verb, schema.KindPD, r.PD)
	if err != nil {
		return nil, err
	}
	src, err := c.lookup(verb, schema.KindMR, r.MR)
	if err != nil {
		return nil, err
	}
	o := &object{kind: schema.KindMR, ca: pd.ca}
	var reply *Result
	return c.create(verb, o, pd, private{}, func() (destroyable, error) {
		src.change.Lock()
		defer src.change.Unlock()
		n := len(src.memories)
		if n == 0 {
			return nil, failf(verb, ci.InvalidMRHandle, "the region is being destroyed")
		}
		shared := src.memories[n-1]
		if err := checkRights(verb, r.Access); err != nil {
			return nil, err
		}
		if !shared.mayWrite(r.Access) {
			return nil, errReadOnly(verb)
		}
		mr, err := pd.al.(*accesslayer.PD).NewSMR(src.al.(ci.MR), r.IOVA, r.Access)
		if err != nil {
			return nil, err
		}
		c.mu.Lock()
		shared.regions++
		c.mu.Unlock()
		o.memories, reply = []*mapping{shared}, regionReply(o.handle, mr.Region())
		return mr, nil
	}, func() (*Result, *schema.UserBufferReply) { return reply, nil })
}

func (c *Session) queryMR(r *schema.MR) (*Result, error) {
	o, err := c.lookup("MR.Query", schema.KindMR, r.MR)
	if err != nil {
		return nil, err
	}
	a, err := o.al.(*accesslayer.MR).Query()
	return &Result{Body: &schema.QueryMRReply{Region: schema.Region{Addr: a.Addr, Length: a.Length, LKey: a.LKey,
		RKey: a.RKey},
		LocalLo: a.LocalLo, LocalHi: a.LocalHi, RemoteLo: a.RemoteLo, RemoteHi: a.RemoteHi, Access: a.Access}}, err
}

func (c *Session) modifyMR(r *schema.ModifyMR, files []*os.File) (*Result, error) {
	const verb = "MR.Modify"
	o, err := c.lookup(verb, schema.KindMR, r.MR)
	if err != nil {
		return nil, err
	}
	pd, err := c.optional(verb, schema.KindPD, r.PD)
	if err != nil {
		return nil, err
	}
	if err := checkRights(verb, r.Memory.Access); err != nil {
		return nil, err
	}
	o.change.Lock()
	defer o.change.Unlock()
	set, create := ci.MRField(r.Set), ci.MRCreate{IOVA: r.Memory.IOVA, Access: r.Memory.Access}
	access := r.Memory
	if set&ci.MRFieldAccess == 0 { // the region keeps its rights, which the request does not contain
		if a, err := o.al.(*accesslayer.MR).Query(); err == nil {
			access.Access = a.Access
		}
	}
	memories := o.memories
	if set&ci.MRFieldMemory != 0 {
		found, err := c.memory(verb, &access, files)
		if err != nil {
			return nil, err
		}
		create.Memory, memories = found.mem, []*mapping{found}
	} else if n := len(memories); n > 0 && !memories[n-1].mayWrite(access.Access) {
		return nil, errReadOnly(verb)
	}
	return c.replaceMR(o, pd, set, create, memories)
}

// replaceMR executes a change that has been validated. memories are what the region has afterwards. o.change is locked.
func (c *Session) replaceMR(o, pd *object, set ci.MRField, create ci.MRCreate, memories []*mapping) (*Result, error) {
	var to ci.PD
	if pd != nil {
		to = pd.al.(*accesslayer.PD).CI()
	}
	unused := memories
	err := o.al.(*accesslayer.MR).Modify(set, to, create)
	switch {
	case err == nil:
		o.memories, unused = memories, o.memories
	case ci.StatusOf(err) == ci.InsufficientResources: // the region is invalid, and keeps all until Destroy
		o.memories, unused = slices.Concat(o.memories, memories), nil
	}
	if set&ci.MRFieldMemory != 0 {
		c.release(unused...)
	}
	if err != nil {
		return nil, err
	}
	if set&ci.MRFieldPD != 0 && pd != nil {
		c.mu.Lock()
		o.parent.children--
		o.parent = pd
		pd.children++
		c.mu.Unlock()
	}
	return regionReply(o.handle, o.al.(*accesslayer.MR).Region()), nil
}

func (c *Session) createMW(r *schema.CreateMW, files []*os.File) (*Result, error) {
	const verb = "PD.CreateMW"
	pd, err := c.lookup(verb, schema.KindPD, r.PD)
	if err != nil {
		return nil, err
	}
	p, err := pd.copyIn(verb, &r.User, files)
	if err != nil {
		return nil, err
	}
	o := &object{kind: schema.KindMW, ca: pd.ca}
	reply := new(schema.WindowReply)
	return c.create(verb, o, pd, p, func() (destroyable, error) {
		w, err := pd.al.(*accesslayer.PD).NewMW(ci.MWCreate{Type: ci.MWType(r.Type), User: p.ub})
		if err != nil {
			return nil, err
		}
		reply.Key = w.Key()
		return w, nil
	}, func() (*Result, *schema.UserBufferReply) {
		reply.Handle = o.handle
		return &Result{Body: reply}, &reply.User
	})
}

func (c *Session) queryMW(r *schema.MW) (*Result, error) {
	o, err := c.lookup("MW.Query", schema.KindMW, r.MW)
	if err != nil {
		return nil, err
	}
	a, err := o.al.(*accesslayer.MW).Query()
	return &Result{Body: &schema.WindowReply{Handle: o.handle, Key: a.Key, Type: uint32(a.Type)}}, err
}
