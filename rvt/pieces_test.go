package rvt

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

// pieces is memory that can be addressed only in extents of a few bytes. With size 0 it can only be copied.
type pieces struct {
	ci.Memory
	b    []byte
	size uint64
}

func newPieces(n int, size uint64) *pieces {
	b := make([]byte, n)
	return &pieces{Memory: ci.Bytes(b), b: b, size: size}
}

func (p *pieces) Slice(off, n uint64) []byte {
	if p.size == 0 {
		return nil
	}
	return p.b[off : off+min(n, p.size-off%p.size)]
}

// TestManyPieces sends gather lists with more extents than a batch holds, combined with memory that is copied and with
// inline data after them, and reads such memory. The data always arrives.
func TestManyPieces(t *testing.T) {
	for _, k := range linkKinds {
		for _, typ := range []ci.QPType{ci.RC, ci.UC, ci.UD} {
			t.Run(fmt.Sprint(k.name, typ), func(t *testing.T) {
				l := &wireLink{mtu: ci.MTU4096, hints: k.hints}
				a, b := pair(t, l, typ)
				var mems []*pieces
				var regions []ci.Region
				for _, size := range []uint64{0, 1, 7, 16, 4096} {
					m := newPieces(8192, size)
					fillRandom(rand.New(rand.NewPCG(size, 1)), m.b)
					mr, err := a.pd.RegisterMR(ci.MRCreate{Memory: m, Access: allRemote})
					require.NoError(t, err)
					t.Cleanup(func() { require.NoError(t, mr.Destroy()) })
					mems, regions = append(mems, m), append(regions, mr.Region())
				}
				head := 0
				if typ == ci.UD {
					head = grhSize
				}
				for i := range mems {
					for j := range mems {
						for _, lens := range [][2]int{{255, 1}, {256, 1}, {256, 8}, {1, 256}, {1792, 7}, {2000, 2000}} {
							want := append(bytes.Clone(mems[i].b[:lens[0]]), mems[j].b[64:64+lens[1]]...)
							b.recv(ci.RecvWR{ID: 1, SGL: b.sge(0, 8192)}, ci.RecvWR{ID: 2, SGL: b.sge(8192, 1024)})
							a.send(
								ci.SendWR{ID: 1, To: a.dest(b, 0x1234),
									SGL: []ci.SGE{regions[i].SGE(0, uint32(lens[0])),
										regions[j].SGE(64, uint32(lens[1]))}},
								ci.SendWR{ID: 2, To: a.dest(b, 0x1234), Inline: []byte("behind")})
							a.clock.(*fakeClock).Advance(1e6) // for the bursts of UC
							wcs := b.poll()
							require.Len(t, wcs, 2, "pieces of %d and %d bytes, lengths %v", mems[i].size,
								mems[j].size, lens)
							require.EqualValues(t, len(want)+head, wcs[0].Length)
							require.Equal(t, want, b.buf[head:head+len(want)])
							require.Equal(t, "behind", string(b.buf[8192+head:8192+head+6]))
						}
					}
					if typ != ci.RC {
						continue
					}
					b.send(ci.SendWR{ID: 3, Op: ci.OpRead, Flags: ci.SendSignaled, SGL: b.sge(0, 8192),
						Remote: regions[i].Remote(0)})
					require.Equal(t, ci.WCSuccess, b.onlyWC().Status)
					require.Equal(t, mems[i].b, b.buf[:8192])
				}
			})
		}
	}
}
