package usermutants

import (
	"strings"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/kproxy/native"
	"ciddk/kproxy/schema"
	"ciddk/validate/mutant"
	"ciddk/validate/req"
	"ciddk/validate/suite/usersuite"
)

// core returns proxies with a fault in their memory, their events, or what they do when an adapter is removed.
func core() []mutant.Mutant {
	at := func(name, does string, change func(ci.CQCreate) ci.CQCreate) mutant.Mutant {
		return fault(name, req.SAS2_4_11, does, func() *usersuite.Fault {
			return &usersuite.Fault{Driver: ciwrap.Layer{CQCreate: change}.Wrap}
		})
	}
	return []mutant.Mutant{
		caughtBy("user.memory.reach", fault("user.memory-extended", req.SAS2_4_09,
			"a driver can write behind the end of memory of the process", func() *usersuite.Fault {
				return &usersuite.Fault{Driver: ciwrap.Layer{MRCreate: func(c ci.MRCreate) ci.MRCreate {
					c.Memory = extended{c.Memory}
					return c
				}}.Wrap}
			})),
		caughtBy("user.removal.objects", fault("user.removed-usable", req.SAS2_4_11,
			"peeks at a CQ of an adapter that was removed succeed",
			editing(nil, func(h *native.Header) {
				if h.Command == schema.CmdPeek && h.Status == ci.InvalidState {
					h.Status = 0
				}
			}))),
		caughtBy("user.removal.stop", fault("user.stop-twice", req.SAS2_4_11,
			"an open receives the announcement of the daemon's end, and another event when its adapter is removed",
			counting(func(r *schema.DestroyReply) {
				if r.Async == 1 {
					r.Async = 2
				}
			}))),
		caughtBy("user.event.contents", at("user.vendor-cut", "the vendor's data of events of CQs have 32 bits",
			func(c ci.CQCreate) ci.CQCreate {
				if on := c.OnEvent; on != nil {
					c.OnEvent = func(e ci.Event) {
						e.Vendor = uint64(uint32(e.Vendor))
						on(e)
					}
				}
				return c
			})),
		caughtBy("user.event.overflow", at("user.events-uncounted",
			"each 50th completion event of a CQ is lost, and not counted", func(c ci.CQCreate) ci.CQCreate {
				if on := c.OnCompletion; on != nil {
					var n atomic.Int32
					c.OnCompletion = func(ctx any) {
						if n.Add(1)%50 != 0 {
							on(ctx)
						}
					}
				}
				return c
			})),
	}
}

// extended is a memory without a check of its end.
type extended struct{ ci.Memory }

func (m extended) WriteAt(p []byte, off int64) (int, error) {
	if end := int64(m.Len()); off >= 0 && off <= end && int64(len(p)) > end-off {
		_, err := m.Memory.WriteAt(p[:end-off], off)
		return len(p), err // the fault
	}
	return m.Memory.WriteAt(p, off)
}

// counting returns a fault that edits the replies to destroys.
func counting(edit func(*schema.DestroyReply)) func() *usersuite.Fault {
	return func() *usersuite.Fault {
		return &usersuite.Fault{Relay: func(client, daemon *native.Conn) {
			both(client, daemon, passOn, func(from, to *native.Conn) {
				passEdited(from, to, func(h *native.Header, body []byte) []byte {
					var r schema.DestroyReply
					if h.Command != schema.CmdDestroy || h.Status != 0 || native.Parse(body, &r) != nil {
						return body
					}
					edit(&r)
					return native.Append(nil, &r)
				})
			})
		}}
	}
}

// passEdited passes messages and edits their bodies.
func passEdited(from, to *native.Conn, edit func(*native.Header, []byte) []byte) {
	buf := make([]byte, schema.MaxMessage)
	for {
		n, files, err := from.Recv(buf)
		if err != nil {
			return
		}
		m := buf[:n]
		if h, body, err := native.ParseHeader(m); err == nil {
			m = append(native.Start(nil), edit(&h, append([]byte(nil), body...))...)
			_ = native.Finish(m, h) // it is no longer than a message
		}
		err = to.Send(m, files)
		usersuite.CloseFiles(files)
		if err != nil {
			return
		}
	}
}

// permissive returns proxies that reply with another status where they have to refuse.
func permissive() (list []mutant.Mutant) {
	for _, f := range []struct {
		name, id, does string
		command        schema.Command
		from, to       ci.Status
	}{
		{"user.ports-open", "user.privilege.ports", "a process without privileges may set a controlled Q_Key",
			schema.CmdModifyQP, ci.InvalidPermission, 0},
		{"user.control-denied", "user.privilege.none", "a daemon without operations denies the permission",
			schema.CmdControl, ci.Unsupported, ci.InvalidPermission},
		{"user.agents-open", "user.privilege.services", "agents are refused for another reason",
			schema.CmdRegisterAgent, ci.InvalidPermission, ci.InvalidParameter},
		{"user.copies-twice", "user.copy.messages", "a process may request the socket for copies twice",
			schema.CmdServeCopies, ci.InvalidState, 0},
		{"user.late-status", "user.copy.late", "a process that copies too late is told that its state is wrong",
			schema.CmdRegisterMR, ci.InvalidPermission, ci.InvalidState},
		{"user.queues-beyond", "user.quota.queues", "a process has QPs beyond its quota of bytes",
			schema.CmdCreateQP, ci.InsufficientResources, 0},
		{"user.mappings-beyond", "user.quota.memory", "a process has regions beyond its quotas",
			schema.CmdRegisterMR, ci.InsufficientResources, 0},
		{"user.event-queues-beyond", "user.quota.kinds", "a process has event queues beyond its quota",
			schema.CmdCreateEventQueue, ci.InsufficientResources, 0},
		{"user.vendor-objects", "user.request.vendor", "a vendor's command may name any object",
			schema.CmdVendorCall, ci.InvalidHandle, 0},
		{"user.rights-status", "user.memory.descriptors", "memory that may not be shared is an invalid parameter",
			schema.CmdRegisterMR, ci.InvalidPermission, ci.InvalidParameter},
	} {
		r := req.SAS2_4_10
		if strings.HasPrefix(f.id, "user.copy.") || strings.HasPrefix(f.id, "user.memory.") {
			r = req.SAS2_4_09
		}
		if f.id == "user.request.vendor" {
			r = req.SAS2_4_17
		}
		m := fault(f.name, r, f.does, editing(nil, func(h *native.Header) {
			if h.Command == f.command && h.Status == f.from {
				h.Status = f.to
			}
		}))
		list = append(list, caughtBy(f.id, m))
	}
	return list
}
