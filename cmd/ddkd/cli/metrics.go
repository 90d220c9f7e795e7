package cli

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"ciddk/ci"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
)

// metrics reads the counters of a daemon when Prometheus does. It is a prometheus.Collector.
type metrics struct{ d *daemon }

// family is one metric. Its samples differ in the values of the labels.
type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func gauge(name, help string, labels ...string) family {
	return family{prometheus.NewDesc("ddkd_"+name, help, labels, nil), prometheus.GaugeValue}
}

func total(name, help string, labels ...string) family {
	return family{prometheus.NewDesc("ddkd_"+name+"_total", help, labels, nil), prometheus.CounterValue}
}

func (f family) send(to chan<- prometheus.Metric, v float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(f.desc, f.kind, v, labels...)
}

// The metrics of adapters. Bytes and packets are those of the wire, without headers below the transport.
var (
	numAdapters   = gauge("adapters", "Adapters in service.")
	portState     = gauge("port_state", "Whether the port is in the state: 1 or 0.", "adapter", "port", "state")
	portSent      = total("port_sent_packets", "Packets sent.", "adapter", "port")
	portReceived  = total("port_received_packets", "Packets received.", "adapter", "port")
	portSentB     = total("port_sent_bytes", "Bytes sent.", "adapter", "port")
	portReceivedB = total("port_received_bytes", "Bytes received.", "adapter", "port")
	portErrors    = total("port_receive_errors", "Packets that were malformed or whose checksum was wrong.", "adapter",
		"port")
	portDiscards = total("port_send_discards", "Packets that the link did not take.", "adapter", "port")
	drops        = total("adapter_dropped_packets", "Packets that were not acted on, of all ports.", "adapter",
		"reason")
	transport  = total("adapter_transport", "Events of the transport, such as retries.", "adapter", "event")
	doorbells  = total("adapter_doorbells", "Times that a client has woken the engine.", "adapter")
	queueUsed  = gauge("adapter_queue_bytes", "Bytes of all queues.", "adapter")
	queueLimit = gauge("adapter_queue_limit_bytes", "Limit of the bytes of all queues.", "adapter")
)

// The metrics of clients.
var (
	clients     = gauge("clients", "Clients that are connected.")
	connected   = total("clients_connected", "Clients that have connected.")
	objects     = gauge("objects", "Objects of all clients.", "kind")
	clientQueue = gauge("client_queue_bytes", "Bytes of the queues of all clients, estimated from their sizes.")
	clientMem   = gauge("client_memory_bytes", "Bytes that all clients have registered.")
	quotaUsed   = gauge("quota_used_ratio", "Largest share of a limit that one client uses.", "limit")
	refusals    = total("quota_refusals", "Requests that exceeded a limit.", "limit")
	messages    = total("messages", "Messages received from clients.", "command")
	rejected    = total("messages_rejected", "Messages that did not match their declaration.")
	posts       = total("work_requests", "Work requests received in messages.")
	completions = total("completions", "Completions returned in messages.")
	inFlight    = gauge("descriptors_in_flight", "Descriptors passed to clients that have not received them.")
	waiting     = gauge("events_waiting", "Events that wait because their clients do not read.")
	events      = total("events", "Events delivered to clients.")
	merged      = total("events_merged", "Events that replaced equal ones because an event queue was full.")
)

// families are all metrics.
var families = []family{numAdapters, portState, portSent, portReceived, portSentB, portReceivedB, portErrors,
	portDiscards, drops, transport, doorbells, queueUsed, queueLimit, clients, connected, objects, clientQueue,
	clientMem,
	quotaUsed, refusals, messages, rejected, posts, completions, inFlight, waiting, events, merged}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	for _, f := range families {
		to <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	list := m.d.adapters.snapshot()
	numAdapters.send(to, float64(len(list)))
	for _, a := range list {
		a.collect(to)
	}
	m.ports(to)
	collectLoad(to, m.d.core.Load())
}

// portStates are the logical states of a port.
var portStates = []ci.PortState{ci.PortDown, ci.PortInit, ci.PortArmed, ci.PortActive, ci.PortActiveDefer}

// ports sends the states of the ports.
func (m *metrics) ports(to chan<- prometheus.Metric) {
	for _, a := range m.d.al.Adapters() {
		for _, p := range a.Attr().Ports {
			for _, s := range portStates {
				v := 0.0
				if p.State == s {
					v = 1
				}
				portState.send(to, v, guidText(a.GUID()), strconv.Itoa(int(p.Num)), s.String())
			}
		}
	}
}

// collect sends what the driver counts.
func (a *openAdapter) collect(to chan<- prometheus.Metric) {
	guid := a.guid()
	if c, ok := ci.As[counter](a.hca); ok {
		counts := c.Counters()
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			if reason, ok := strings.CutPrefix(name, "drop_"); ok {
				drops.send(to, float64(counts[name]), guid, reason)
			} else {
				transport.send(to, float64(counts[name]), guid, name)
			}
		}
	}
	if c, ok := ci.As[doorbellCounter](a.hca); ok {
		doorbells.send(to, float64(c.Doorbells()), guid)
	}
	if c, ok := ci.As[queueCounter](a.hca); ok {
		used, limit := c.QueueMemory()
		queueUsed.send(to, float64(used), guid)
		queueLimit.send(to, float64(limit), guid)
	}
	c, ok := ci.As[portCounter](a.hca)
	if !ok {
		return
	}
	for num := uint8(1); num <= a.numPorts; num++ {
		n, port := c.PortCount(num), strconv.Itoa(int(num))
		portSent.send(to, float64(n.XmitPkts), guid, port)
		portReceived.send(to, float64(n.RcvPkts), guid, port)
		portSentB.send(to, float64(n.XmitBytes), guid, port)
		portReceivedB.send(to, float64(n.RcvBytes), guid, port)
		portErrors.send(to, float64(n.RcvErrors), guid, port)
		portDiscards.send(to, float64(n.XmitDiscards), guid, port)
	}
}

// collectLoad sends what the proxy counts.
func collectLoad(to chan<- prometheus.Metric, l *kproxy.Load) {
	clients.send(to, float64(l.Sessions))
	connected.send(to, float64(l.Clients))
	clientQueue.send(to, float64(l.QueueBytes))
	clientMem.send(to, float64(l.MemoryBytes))
	rejected.send(to, float64(l.Rejected))
	posts.send(to, float64(l.Posts))
	completions.send(to, float64(l.Completions))
	waiting.send(to, float64(l.Waiting))
	events.send(to, float64(l.Events))
	merged.send(to, float64(l.Merged))
	for k, n := range l.Objects {
		objects.send(to, float64(n), label(k))
	}
	for k, n := range l.Messages {
		messages.send(to, float64(n), label(k))
	}
	for k, n := range l.Refusals {
		refusals.send(to, float64(n), label(k))
	}
	count, refused := native.InFlight()
	inFlight.send(to, float64(count))
	refusals.send(to, float64(refused), "descriptors_in_flight")
	for k, x := range l.Fill {
		quotaUsed.send(to, x, label(k))
	}
}

// label returns the value of a label for a name with spaces.
func label(name string) string { return strings.ReplaceAll(strings.ToLower(name), " ", "_") }
