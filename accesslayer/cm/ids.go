package cm

import (
	"math/rand/v2"

	"ciddk/ci"
)

// An idSource creates communication IDs, request IDs and transaction IDs. Manager.mu guards it.
//
// A peer's first answer is matched by the communication ID or request ID alone. Those IDs are therefore unpredictable,
// even to a peer that has seen some of them. Transaction IDs count up from a random value, so that messages to an
// earlier run of this manager match nothing.
type idSource struct {
	high uint64 // upper half of all transaction IDs
	tid  uint32
	rand *rand.ChaCha8
}

func (i *idSource) init(r *rand.Rand) {
	i.high, i.tid = uint64(r.Uint32())<<32, r.Uint32()
	var seed [32]byte
	for n := range seed {
		seed[n] = byte(r.Uint32())
	}
	i.rand = rand.NewChaCha8(seed)
}

// psn returns a random starting PSN other than 0. The caller holds m.mu.
func (i *idSource) psn() ci.PSN { return ci.PSN(i.rand.Uint64()%0xffffff) + 1 }

// newID returns a communication ID or request ID that is not in use, also not by a connection in time-wait. The caller
// holds m.mu.
func (m *Manager) newID() uint32 {
	for {
		id := uint32(m.ids.rand.Uint64())
		if id == 0 || m.conns[id] != nil || m.lookups[id] != nil {
			continue
		}
		return id
	}
}

// newTID returns a new transaction ID. The caller holds m.mu.
func (m *Manager) newTID() uint64 {
	m.ids.tid++
	return m.ids.high | uint64(m.ids.tid)
}
