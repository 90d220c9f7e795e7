package lnd

import (
	"ciddk/accesslayer"
	"ciddk/ci"
)

// buffers is the memory of a connection's messages: one region, pieces of MsgSize. Those for sending come first.
type buffers struct {
	mr    *accesslayer.MR
	mem   []byte
	sends int
	sgls  [][]ci.SGE // one for each piece, so that posting allocates nothing
	recvs []ci.RecvWR
}

func newBuffers(pd *accesslayer.PD, depth int) (b *buffers, err error) {
	n := depth + recvs(depth)
	b = &buffers{mem: make([]byte, n*MsgSize), sends: depth, sgls: make([][]ci.SGE, n), recvs: make([]ci.RecvWR, n-depth)}
	if b.mr, err = pd.NewMR(ci.MRCreate{Memory: ci.Bytes(b.mem), Access: ci.LocalWrite}); err != nil {
		return nil, err
	}
	region := b.mr.Region()
	for i := range n {
		b.sgls[i] = []ci.SGE{region.SGE(uint64(i*MsgSize), MsgSize)}
	}
	for i := range b.recvs {
		b.recvs[i] = ci.RecvWR{ID: uint64(i)<<wrBits | wrRecv, SGL: b.sgls[depth+i]}
	}
	return b, nil
}

// encode writes a message to send buffer i.
func (b *buffers) encode(i int, m *Message, checksum bool) []ci.SGE {
	at := i * MsgSize
	out := m.Append(b.mem[at:at:at+MsgSize], checksum)
	b.sgls[i][0].Length = uint32(len(out))
	return b.sgls[i]
}

// recvWR posts receive buffer i.
func (b *buffers) recvWR(i int) []ci.RecvWR { return b.recvs[i : i+1] }

// received is what came to receive buffer i.
func (b *buffers) received(i int, n uint32) []byte {
	at := (b.sends + i) * MsgSize
	return b.mem[at : at+int(n)]
}
