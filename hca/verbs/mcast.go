//go:build linux && (amd64 || arm64)

package verbs

import (
	"errors"
	"syscall"

	"ciddk/ci"
	"ciddk/ci/driver"
)

type mcast struct {
	ci.UnimplementedMcast
	refs driver.Refs
	qp   *qp
	of   group
}

// A group is a multicast group as a QP is attached to it.
type group struct {
	gid ci.GID
	lid ci.LID
}

// AttachMcast attaches the QP to a group. Status: InvalidServiceType, InvalidGID, InvalidLID, MaxMcastQPsReached,
// Unsupported, InvalidParameter (private data), InvalidQPHandle.
func (q *qp) AttachMcast(c ci.McastAttach) (ci.Mcast, error) {
	const verb = "QP.AttachMcast"
	switch {
	case !q.hca.claims().Has(ci.CapMulticast):
		return q.UnimplementedQP.AttachMcast(c)
	case c.User != nil:
		return nil, fail(verb, ci.InvalidParameter, "private data, which this driver has no user library for")
	case !q.refs.Get():
		return nil, fail(verb, ci.InvalidQPHandle, "")
	case q.create.Type != ci.UD:
		q.refs.Put()
		return nil, fail(verb, ci.InvalidServiceType, "")
	}
	q.groupMu.Lock()
	defer q.groupMu.Unlock()
	k := group{c.GID, c.LID}
	// A second attach of a QP to a group does nothing in the library, and the first detach ends both.
	if q.groups[k] == 0 {
		if err := q.hca.dev.AttachMcast(q.qp, c.GID, uint16(c.LID)); err != nil {
			q.refs.Put()
			if errors.Is(err, syscall.ENOMEM) && q.hca.isFull(c.GID) {
				return nil, &ci.Error{Verb: verb, Status: ci.MaxMcastQPsReached, Err: err}
			}
			return nil, reject(verb, err, groupStatus(&c))
		}
		q.hca.member(c.GID, 1)
	}
	if q.groups == nil {
		q.groups = map[group]int{}
	}
	q.groups[k]++
	return &mcast{qp: q, of: k}, nil
}

// member counts the QPs that were attached to a group.
func (h *HCA) member(gid ci.GID, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.groups[gid] += n; h.groups[gid] == 0 {
		delete(h.groups, gid)
	}
}

// isFull reports whether a group, or all groups together, have as many QPs as the device allows.
func (h *HCA) isFull(gid ci.GID) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	all := 0
	for _, n := range h.groups {
		all += n
	}
	return h.groups[gid] >= limit(h.attr.MaxMcastQPAttach) || all >= limit(h.attr.MaxTotalMcastQPs)
}

// groupStatus names what is wrong with a group that the provider rejected as invalid.
func groupStatus(c *ci.McastAttach) ci.Status {
	if c.GID[0] == 0xff && c.LID != 0 && c.LID < 0xc000 {
		return ci.InvalidLID
	}
	return ci.InvalidGID
}

// Destroy detaches the QP. Status: InvalidMcastHandle.
func (m *mcast) Destroy() error {
	const verb = "Mcast.Destroy"
	q := m.qp
	q.groupMu.Lock()
	defer q.groupMu.Unlock()
	err := m.refs.DestroyIf(verb, ci.InvalidMcastHandle, func() error {
		if q.groups[m.of] > 1 {
			return nil
		}
		if err := q.hca.dev.DetachMcast(q.qp, m.of.gid, uint16(m.of.lid)); err != nil {
			return reject(verb, err, ci.Success)
		}
		q.hca.member(m.of.gid, -1)
		return nil
	})
	if err != nil {
		return err
	}
	if q.groups[m.of]--; q.groups[m.of] == 0 {
		delete(q.groups, m.of)
	}
	q.refs.Put()
	return nil
}
