package nvmet

import (
	"context"
	"crypto/sha256"
	"strconv"
)

type handler func(r *request, ctx context.Context, c *controller) error

var adminCommands = map[byte]handler{
	opGetLog:      (*request).getLog,
	opIdentify:    (*request).identify,
	opAbort:       (*request).abort,
	opSetFeatures: (*request).setFeatures,
	opGetFeatures: (*request).getFeatures,
	opAsyncEvent:  (*request).asyncEvent,
	opKeepAlive:   func(*request, context.Context, *controller) error { return nil }, // start has restarted the timer
}

// maxEvents is the number of Asynchronous Event Requests of a controller.
const maxEvents = 4

// asyncEvent keeps a request pending. There are no events.
func (r *request) asyncEvent(context.Context, *controller) error {
	r.q.mu.Lock()
	defer r.q.mu.Unlock()
	if len(r.q.pending) == maxEvents {
		return eventLimitExceeded
	}
	r.q.pending = append(r.q.pending, r)
	return errPending
}

// abort ends an Asynchronous Event Request. Other commands are about to end by themselves.
func (r *request) abort(ctx context.Context, _ *controller) error {
	const notAborted = 1
	r.result = notAborted
	queue, id := uint16(r.dword(10)), uint16(r.dword(10)>>16)
	r.q.mu.Lock()
	var found *request
	for i, p := range r.q.pending {
		if queue == 0 && p.id() == id {
			found, r.q.pending = p, append(r.q.pending[:i:i], r.q.pending[i+1:]...)
			break
		}
	}
	r.q.mu.Unlock()
	if found == nil {
		return nil
	}
	r.result = 0
	return r.q.respond(ctx, found, abortRequested)
}

// Features.
const (
	featureCache, featureQueues, featureEvents, featureKeepAlive = 0x06, 0x07, 0x0b, 0x0f
)

func (r *request) getFeatures(_ context.Context, c *controller) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch byte(r.dword(10)) {
	case featureCache:
		r.result = 1
	case featureQueues:
		r.result = c.queueCounts()
	case featureEvents:
		r.result = uint64(c.events)
	case featureKeepAlive:
		r.result = uint64(c.keepAlive.Milliseconds())
	default:
		return invalidField
	}
	return nil
}

// queueCounts returns the numbers of submission and of completion queues, from 0.
func (c *controller) queueCounts() uint64 { return uint64(c.granted-1) * 0x10001 }

func (r *request) setFeatures(_ context.Context, c *controller) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	value := r.dword(11)
	switch byte(r.dword(10)) {
	case featureQueues:
		submission, completion := int(value&0xffff), int(value>>16)
		if c.isDiscovery || submission == 0xffff || completion == 0xffff {
			return invalidField
		}
		c.granted = min(submission+1, completion+1, c.t.cfg.Queues)
		r.result = c.queueCounts()
	case featureEvents:
		c.events = value
	default:
		return invalidField
	}
	return nil
}

// Log pages.
const (
	logErrors, logHealth, logFirmware, logDiscovery = 0x01, 0x02, 0x03, 0x70
	recordLen                                       = 1024 // of the discovery log page, as its header
)

// getLog returns a part of a log page. What is beyond its end reads as zeros.
func (r *request) getLog(ctx context.Context, c *controller) error {
	length := (uint64(r.dword(11)&0xffff)<<16 | uint64(r.dword(10)>>16)) * 4
	length, offset := length+4, uint64(r.dword(12))|uint64(r.dword(13))<<32
	var p page
	switch id := byte(r.dword(10)); {
	case c.isDiscovery && id == logDiscovery:
		p = r.discovery()
	case !c.isDiscovery && id == logErrors:
		p = make(page, 64)
	case !c.isDiscovery && (id == logHealth || id == logFirmware):
		p = make(page, 512)
	default:
		return invalidLogPage
	}
	if offset > uint64(len(p)) || offset%4 != 0 || length > maxTransfer {
		return invalidField
	}
	return r.pushPage(ctx, p[offset:], int(length))
}

// pushPage sends a page, padded with zeros.
func (r *request) pushPage(ctx context.Context, p page, length int) error {
	return r.push(ctx, length, func(b []byte) error {
		clear(b[copy(b, p):])
		return nil
	})
}

// discovery returns the discovery log page: the subsystem at the address to which the host is connected.
func (r *request) discovery() page {
	const rdma, ipv4, ipv6, nvm, dynamic, connected, roceV2, rdmaCM = 1, 1, 2, 2, 0xffff, 1, 4, 1
	p := make(page, 2*recordLen)
	p.u64(0, 1) // generation
	p.u64(8, 1) // number of records
	e := p[recordLen:]
	e[0], e[1], e[2] = rdma, ipv4, nvm
	if !r.q.local.Addr().Unmap().Is4() {
		e[1] = ipv6
	}
	e.u16(4, 1) // port
	e.u16(6, dynamic)
	e.u16(8, 32) // entries of the admin queue
	padded(e[32:64], strconv.Itoa(int(r.q.local.Port())))
	copy(e[256:512], r.q.t.cfg.NQN)
	padded(e[512:768], r.q.local.Addr().Unmap().String())
	e[768], e[769], e[770] = connected, roceV2, rdmaCM
	return p
}

// Identify structures.
const (
	identifyNamespace, identifyController, identifyList, identifyDescriptors = 0x00, 0x01, 0x02, 0x03
	theNamespace, allNamespaces                                              = 1, 0xffffffff
)

func (r *request) identify(ctx context.Context, c *controller) error {
	p, id := make(page, pageLen), r.namespace()
	switch what := byte(r.dword(10)); {
	case what == identifyController:
		c.describe(p)
	case c.isDiscovery:
		return invalidField
	case what == identifyNamespace:
		switch id {
		case theNamespace, allNamespaces:
			c.t.describeNamespace(p)
		default:
			return invalidNamespace
		}
	case what == identifyList:
		if id >= allNamespaces-1 {
			return invalidNamespace
		}
		if id < theNamespace {
			p.u32(0, theNamespace)
		}
	case what == identifyDescriptors:
		if id != theNamespace {
			return invalidNamespace
		}
		const nguid, uuid = 2, 3
		g, u := c.t.ids()
		p[0], p[1] = nguid, byte(copy(p[4:], g[:]))
		p[20], p[21] = uuid, byte(copy(p[24:], u[:]))
	default:
		return invalidField
	}
	return r.pushPage(ctx, p, pageLen)
}

// ids returns the identifiers of the namespace, which follow from the name of the subsystem.
func (t *Target) ids() (nguid, uuid [16]byte) {
	sum := sha256.Sum256([]byte(t.cfg.NQN))
	nguid, uuid = [16]byte(sum[:16]), [16]byte(sum[16:])
	uuid[6], uuid[8] = uuid[6]&0x0f|0x80, uuid[8]&0x3f|0x80 // version 8, RFC 9562
	return nguid, uuid
}

// describe writes the Identify Controller structure.
func (c *controller) describe(p page) {
	const keyed, offsets, supported = 1 << 2, 1 << 20, 1 << 0
	const isIO, isDiscovery = 1, 2
	const trafficKeepAlive = 1 << 6
	padded(p[4:24], "ciddk")
	padded(p[24:64], "ciddk nvmet")
	padded(p[64:72], "1")
	p[77] = mdts
	p.u16(78, c.id)
	p.u32(80, version)
	p.u32(96, trafficKeepAlive)
	p[111] = isIO
	p[259] = maxEvents - 1
	p[261] = 1 << 2             // extended data of Get Log Page
	p.u16(320, 1)               // granularity of keep alive, in 100 ms
	p[512], p[513] = 0x66, 0x44 // log2 of the lengths of queue entries
	p.u16(514, uint16(c.t.cfg.Depth))
	p.u32(536, supported|keyed|offsets)
	p.u32(1792, capsuleLen/16)
	p.u32(1796, responseLen/16)
	p[1803] = 1 // descriptors of a command
	if c.isDiscovery {
		p[111] = isDiscovery
		p.u32(1792, commandLen/16)
		copy(p[768:1024], DiscoveryNQN)
		return
	}
	p.u32(516, theNamespace) // number of namespaces
	p[525] = 1               // a volatile write cache
	copy(p[768:1024], c.t.cfg.NQN)
}

// describeNamespace writes the Identify Namespace structure.
func (t *Target) describeNamespace(p page) {
	blocks := t.blocks()
	for at := 0; at < 24; at += 8 { // size, capacity, utilization
		p.u64(at, blocks)
	}
	nguid, _ := t.ids()
	copy(p[104:120], nguid[:])
	p[130] = 9 // log2 of the length of a block
}

func (t *Target) blocks() uint64 { return uint64(t.cfg.Backend.Size()) / blockLen }
