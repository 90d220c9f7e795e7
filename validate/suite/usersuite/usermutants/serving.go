package usermutants

import (
	"ciddk/ci"
	"ciddk/kproxy/native"
	"ciddk/kproxy/schema"
	"ciddk/validate/mutant"
	"ciddk/validate/req"
)

// serving returns proxies that accept a request of the services which they have to refuse.
func serving() (list []mutant.Mutant) {
	for _, f := range []struct {
		name, id, does string
		command        schema.Command
		status         ci.Status
	}{
		{"user.datagrams-beyond", "user.service.datagrams", "bytes beyond the end of a datagram can be taken",
			schema.CmdTakeMAD, ci.InvalidParameter},
		{"user.operations-twice", "user.service.operations", "two pending requests of an agent have one number",
			schema.CmdSendMAD, ci.InvalidParameter},
		{"user.listeners-twice", "user.service.listeners", "two processes listen for the same requests",
			schema.CmdCMListen, ci.InvalidSetting},
		{"user.ports-twice", "user.service.ports", "two processes have one port of a port space",
			schema.CmdBindPort, ci.InvalidSetting},
		{"user.services-unlimited", "user.service.limits", "a process opens the services beyond its quota",
			schema.CmdOpenServices, ci.InsufficientResources},
		{"user.connects-foreign", "user.service.connections", "a process connects the QP of another one",
			schema.CmdCMConnect, ci.InvalidQPHandle},
		{"user.lookups-foreign", "user.service.lookups", "a process answers a lookup with the QP of another one",
			schema.CmdCMAnswerLookup, ci.InvalidQPHandle},
		{"user.steps-unlimited", "user.service.steps", "a listener has more pending steps than its limit",
			schema.CmdCMAccept, ci.InsufficientResources},
	} {
		m := fault(f.name, req.SAS2_4_10, f.does, editing(nil, func(h *native.Header) {
			if h.Command == f.command && h.Status == f.status {
				h.Status = 0
			}
		}))
		m.Needs = ci.CapSpecialQP
		list = append(list, caughtBy(f.id, m))
	}
	parts := fault("user.parts-same", req.SAS2_4_10, "each part of a long datagram is the first one",
		editing(func(h *native.Header, body []byte) []byte {
			var r schema.TakeMAD
			if h.Command != schema.CmdTakeMAD || native.Parse(body, &r) != nil || r.Offset < schema.MaxMAD {
				return body
			}
			r.Offset = 0
			return native.Append(nil, &r)
		}, nil))
	parts.Needs = ci.CapSpecialQP
	return append(list, caughtBy("user.service.parts", parts))
}
