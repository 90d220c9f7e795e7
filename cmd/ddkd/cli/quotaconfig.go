package cli

import (
	"reflect"

	"ciddk/kproxy"
)

// quotaConfig is kproxy.Quota. The defaults in the help texts are those of kproxy.Quota.
type quotaConfig struct {
	PDs    int   `yaml:"pds" name:"pds" help:"Protection domains of a client." placeholder:"N"`
	AVs    int   `yaml:"avs" name:"avs" help:"Address vectors of a client." placeholder:"N"`
	CQs    int   `yaml:"cqs" name:"cqs" help:"Completion queues of a client." placeholder:"N"`
	SRQs   int   `yaml:"srqs" name:"srqs" help:"Shared receive queues of a client." placeholder:"N"`
	QPs    int   `yaml:"qps" name:"qps" help:"Queue pairs of a client." placeholder:"N"`
	MRs    int   `yaml:"mrs" name:"mrs" help:"Memory regions of a client." placeholder:"N"`
	MWs    int   `yaml:"mws" name:"mws" help:"Memory windows of a client." placeholder:"N"`
	Mcasts int   `yaml:"multicast" name:"multicast" help:"Multicast attachments of a client." placeholder:"N"`
	Queues int64 `yaml:"queues" name:"queues" help:"Bytes of a client's queues." placeholder:"BYTES"`
	Memory int64 `yaml:"memory" name:"memory" help:"Bytes of a client's registered memory." placeholder:"BYTES"`
	Events int   `yaml:"events" name:"events" help:"Events that wait in one event queue." placeholder:"N"`

	Mappings int `yaml:"mappings" name:"mappings" help:"Mappings of a client's memory in the daemon." placeholder:"N"`

	Listeners   int   `yaml:"listeners" name:"listeners" help:"Listeners of a client." placeholder:"N"`
	Connections int   `yaml:"connections" name:"connections" help:"Connections of a client." placeholder:"N"`
	Agents      int   `yaml:"agents" name:"agents" help:"MAD agents of a client." placeholder:"N"`
	Ports       int   `yaml:"ports" name:"ports" help:"Ports of the port spaces that a client has." placeholder:"N"`
	Services    int64 `yaml:"services" name:"services" help:"Bytes of a client's listeners, connections and agents." placeholder:"BYTES"`

	EventQueues int `yaml:"event-queues" name:"event-queues" help:"Event queues of a client." placeholder:"N"`
	Pending     int `yaml:"pending" name:"pending" help:"Requests of a client in execution." placeholder:"N"`
}

func (q quotaConfig) quota() kproxy.Quota {
	return kproxy.Quota{
		PDs:          q.PDs,
		AVs:          q.AVs,
		CQs:          q.CQs,
		SRQs:         q.SRQs,
		QPs:          q.QPs,
		MRs:          q.MRs,
		MWs:          q.MWs,
		Mcasts:       q.Mcasts,
		EventQueues:  q.EventQueues,
		QueueBytes:   q.Queues,
		MemoryBytes:  q.Memory,
		Events:       q.Events,
		Mappings:     q.Mappings,
		Listeners:    q.Listeners,
		Connections:  q.Connections,
		Agents:       q.Agents,
		Ports:        q.Ports,
		ServiceBytes: q.Services,
		Pending:      q.Pending,
	}
}

// newQuotaConfig is the inverse of quota.
func newQuotaConfig(q kproxy.Quota) quotaConfig {
	return quotaConfig{
		PDs:         q.PDs,
		AVs:         q.AVs,
		CQs:         q.CQs,
		SRQs:        q.SRQs,
		QPs:         q.QPs,
		MRs:         q.MRs,
		MWs:         q.MWs,
		Mcasts:      q.Mcasts,
		EventQueues: q.EventQueues,
		Queues:      q.QueueBytes,
		Memory:      q.MemoryBytes,
		Events:      q.Events,
		Mappings:    q.Mappings,
		Listeners:   q.Listeners,
		Connections: q.Connections,
		Agents:      q.Agents,
		Ports:       q.Ports,
		Services:    q.ServiceBytes,
		Pending:     q.Pending,
	}
}

// check rejects negative numbers.
func (q quotaConfig) check() error {
	v := reflect.ValueOf(q)
	for i := range v.NumField() {
		if n := v.Field(i).Int(); n < 0 {
			return badConfig("quota %s %d: want a positive number, or 0 for the default",
				v.Type().Field(i).Tag.Get("yaml"), n)
		}
	}
	return nil
}
