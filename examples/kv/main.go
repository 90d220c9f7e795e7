// Command kv is a key-value store over RDMA: a GET is an RDMA READ of the server's table, a PUT is a message.
//
//	kv 127.0.0.1:7300                         # the server
//	kv 127.0.0.1:7300 127.0.0.2 KEY [VALUE]   # a client at another address: GET, or PUT of a value
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"log"
	"net/netip"
	"os"
	"sync"

	"ciddk/accesslayer/rdmacm"
	"ciddk/ci"
	"ciddk/softroce"
)

// A key is in one of the slots of its bucket. A slot is the key, a zero byte, the value, and zeros. A path MTU is a
// multiple of slotLen, so one packet of a READ, which is one call of table.ReadAt, has whole slots.
const buckets, bucketLen, slotLen = 1024, 8 * slotLen, 256

// find returns the slot of a key in its bucket, or the first free one, or nil.
func find(bucket, key []byte) []byte {
	for ; len(bucket) > 0; bucket = bucket[slotLen:] {
		if k, _, _ := bytes.Cut(bucket[:slotLen], []byte{0}); len(k) == 0 || bytes.Equal(k, key) {
			return bucket[:slotLen]
		}
	}
	return nil
}

func bucketOf(key []byte) int { return int(crc32.ChecksumIEEE(key)%buckets) * bucketLen }

// table is the memory that clients read, with a lock that orders their READs and the server's writes.
type table struct {
	ci.Memory
	mu sync.RWMutex
	b  []byte
}

func (t *table) Slice(off, n uint64) []byte { return nil } // the HCA calls ReadAt instead
func (t *table) ReadAt(b []byte, off int64) (int, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.Memory.ReadAt(b, off)
}

// put stores a client's message, a slot, and returns the answer.
func (t *table) put(m []byte) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	key, _, ok := bytes.Cut(m, []byte{0})
	slot := find(t.b[bucketOf(key):][:bucketLen], key)
	if !ok || len(key) == 0 || len(m) >= slotLen || slot == nil {
		return "the key is empty, key and value are too long, or there is no room for the key"
	}
	clear(slot[copy(slot, m):])
	return "ok"
}

// serve accepts clients until ctx ends. Each gets the region of the table, and an answer to each PUT.
func serve(ctx context.Context, m *rdmacm.Manager, ln *rdmacm.Listener) error {
	b := make([]byte, buckets*bucketLen)
	t := &table{Memory: ci.Bytes(b), b: b}
	memory := m.NewMemory(t, ci.RemoteRead)
	defer memory.Close()
	for {
		request, err := ln.Accept(ctx)
		if err != nil {
			return err
		}
		go func() {
			c, err := request.Accept(ctx)
			if err != nil {
				return
			}
			defer c.Close()
			region, _ := memory.Region(c) // a region without memory fails at the client
			answer, _ := region.MarshalBinary()
			for message := []byte(nil); c.Send(ctx, answer) == nil; answer = []byte(t.put(message)) {
				if message, err = c.Recv(ctx); err != nil {
					return
				}
			}
		}()
	}
}

// get reads the bucket of a key from the server's memory.
func get(ctx context.Context, c *rdmacm.Conn, table rdmacm.Region, key string) (value string, ok bool, err error) {
	b := make([]byte, bucketLen)
	at, err := table.Slice(uint64(bucketOf([]byte(key))), bucketLen)
	if err == nil {
		err = c.Read(ctx, b, at)
	}
	found, v, _ := bytes.Cut(find(b, []byte(key)), []byte{0})
	return string(bytes.TrimRight(v, "\x00")), err == nil && len(found) > 0, err
}

// put sends a key and a value, which have no zero bytes. One call at a time.
func put(ctx context.Context, c *rdmacm.Conn, key, value string) error {
	err := c.Send(ctx, []byte(key+"\x00"+value))
	if err == nil {
		var answer []byte
		if answer, err = c.Recv(ctx); err == nil && string(answer) != "ok" {
			err = errors.New(string(answer))
		}
	}
	return err
}

// dial connects to a server and receives the region of its table.
func dial(ctx context.Context, m *rdmacm.Manager, server netip.AddrPort) (c *rdmacm.Conn, t rdmacm.Region, err error) {
	if c, err = m.Dial(ctx, server); err == nil {
		var b []byte
		b, err = c.Recv(ctx)
		err = errors.Join(err, t.UnmarshalBinary(b))
	}
	return c, t, err
}

func main() {
	ctx, server := context.Background(), netip.MustParseAddrPort(os.Args[1])
	if len(os.Args) == 2 {
		m := must(softroce.Open(server.Addr(), softroce.Config{}))
		log.Fatal(serve(ctx, m, must(m.Listen(server, rdmacm.ListenConfig{}))))
	}
	m := must(softroce.Open(netip.MustParseAddr(os.Args[2]), softroce.Config{}))
	defer m.Close()
	c, table, err := dial(ctx, m, server)
	must(c, err)
	if len(os.Args) > 4 {
		must(c, put(ctx, c, os.Args[3], os.Args[4]))
	} else {
		fmt.Println(get(ctx, c, table, os.Args[3]))
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal("kv: ", err)
	}
	return v
}
