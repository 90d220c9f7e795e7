// Command kv is a key-value store over RDMA: a GET is an RDMA READ of the server's table, a PUT is a message.
//
//	kv 127.0.0.1:7300                         # the server
//	kv 127.0.0.1:7300 127.0.0.2 KEY [VALUE]   # a client at another address: GET, or PUT of a value
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/crc64"
	"log"
	"net/netip"
	"os"
	"sync"

	"ciddk/accesslayer/rdmacm"
	"ciddk/ci"
	"ciddk/softroce"
)

// A key is in one of the slots of its bucket. A slot is a checksum of the rest, the key, a zero byte, the value, zeros.
const buckets, bucketLen, slotLen, sumLen = 1024, 8 * slotLen, 256, 8

// The table changes while the HCA reads it, and no lock stops an HCA. So a READ may return a slot that is partly of one
// PUT and partly of the next. Its checksum is then wrong, and the client reads again, up to attempts times.
const attempts = 16

var ecma = crc64.MakeTable(crc64.ECMA)

// sum returns the checksum of the rest of a slot. That of zeros is 0, so new memory is a table of free slots.
func sum(rest []byte) uint64 { return ^crc64.Update(^uint64(0), ecma, rest) }

// find returns the slot of a key in its bucket, or the first free one, or nil. It reports whether all slots up to it
// are whole.
func find(bucket, key []byte) (slot []byte, whole bool) {
	for ; len(bucket) > 0; bucket = bucket[slotLen:] {
		slot = bucket[:slotLen]
		if binary.BigEndian.Uint64(slot) != sum(slot[sumLen:]) {
			return nil, false
		}
		if k, _, _ := bytes.Cut(slot[sumLen:], []byte{0}); len(k) == 0 || bytes.Equal(k, key) {
			return slot, true
		}
	}
	return nil, true
}

func bucketOf(key []byte) int { return int(crc32.ChecksumIEEE(key)%buckets) * bucketLen }

// table is the memory that clients read. The lock orders the PUTs; READs do not take part.
type table struct {
	mu sync.Mutex
	b  []byte // of mapMemory
}

// put stores a client's message, a key, a zero byte and a value, and returns the answer.
func (t *table) put(m []byte) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	key, _, ok := bytes.Cut(m, []byte{0})
	slot, _ := find(t.b[bucketOf(key):][:bucketLen], key)
	if !ok || len(key) == 0 || len(m) >= slotLen-sumLen || slot == nil {
		return "the key is empty, key and value are too long, or there is no room for the key"
	}
	clear(slot[sumLen+copy(slot[sumLen:], m):])
	binary.BigEndian.PutUint64(slot, sum(slot[sumLen:]))
	return "ok"
}

// serve accepts clients until ctx ends. Each gets the region of the table, and an answer to each PUT.
func serve(ctx context.Context, m *rdmacm.Manager, ln *rdmacm.Listener, t *table) error {
	memory := m.NewMemory(ci.Bytes(t.b), ci.RemoteRead)
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
	at, err := table.Slice(uint64(bucketOf([]byte(key))), bucketLen)
	if err != nil {
		return "", false, err
	}
	return lookup(key, func(bucket []byte) error { return c.Read(ctx, bucket, at) })
}

// lookup returns the value of a key in a bucket, which it reads until it is whole.
func lookup(key string, read func(bucket []byte) error) (value string, ok bool, err error) {
	b := make([]byte, bucketLen)
	for range attempts {
		if err := read(b); err != nil {
			return "", false, err
		}
		if slot, whole := find(b, []byte(key)); slot != nil {
			found, v, _ := bytes.Cut(slot[sumLen:], []byte{0})
			return string(bytes.TrimRight(v, "\x00")), len(found) > 0, nil
		} else if whole {
			return "", false, nil
		}
	}
	return "", false, fmt.Errorf("a slot of the bucket was torn in each of %d reads", attempts)
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
		t := &table{b: must(mapMemory(buckets * bucketLen))}
		log.Fatal(serve(ctx, m, must(m.Listen(server, rdmacm.ListenConfig{})), t))
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
