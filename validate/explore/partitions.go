package explore

import (
	"encoding/binary"
	"slices"

	"ciddk/ci"
)

// SetPKeys writes the first entries of the P_Key table of a port as a subnet manager does: Set(P_KeyTable), IBTA volume
// 1, 14.2.5.7. It returns the status of the MAD, 0 for success.
func SetPKeys(ca ci.CA, port uint8, tid uint32, keys ...ci.PKey) (status uint16, err error) {
	var in, out ci.MAD
	copy(in[:], []byte{1, 0x01, 1, 0x02}) // base version, subnet management by LID, class version, Set
	binary.BigEndian.PutUint64(in[8:], 0x4d4f44454c000000+uint64(tid))
	binary.BigEndian.PutUint16(in[16:], 0x0016)
	for i, k := range keys {
		binary.BigEndian.PutUint16(in[64+2*i:], uint16(k))
	}
	if err := ca.LocalMAD(port, nil, &in, &out); err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint16(out[4:]) & 0x7fff, nil
}

// partitions are the P_Keys of a port that has only that of the default partition: full and limited members of others.
var partitions = []ci.PKey{0xffff, 0x8123, 0x0123, 0x8777, 0x0777}

// addPartitions writes more P_Keys to the table of the side's port, if that can be done.
func (s *side) addPartitions(r *Run) {
	p := s.port
	if p.Link != ci.LinkInfiniBand || !s.attr.Caps.Has(ci.CapLocalMAD) || len(p.PKeys) < len(partitions) ||
		p.PKeys[0] != 0xffff || slices.ContainsFunc(p.PKeys[1:], func(k ci.PKey) bool { return k != 0 }) {
		return
	}
	if status, err := SetPKeys(s.ca, p.Num, uint32(r.step.Add(1)), partitions...); status == 0 && err == nil {
		copy(p.PKeys, partitions)
		s.hasPartitions = true
	}
}

// removePartitions restores the table.
func (s *side) removePartitions(r *Run) {
	if s.hasPartitions {
		old := make([]ci.PKey, len(partitions))
		old[0] = partitions[0]
		_, _ = SetPKeys(s.ca, s.port.Num, uint32(r.step.Add(1)), old...) // as far as it can be restored
	}
}
