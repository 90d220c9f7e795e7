package ucm

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/kproxy/devices"
)

// FuzzCommands executes sequences of commands on a file. The input is a list of commands, each preceded by its length
// in two bytes. No command may stop the daemon, store more than the program has room for, or leave anything behind.
func FuzzCommands(f *testing.F) {
	add := func(commands ...[]byte) {
		var b []byte
		for _, c := range commands {
			b = append(append(b, byte(len(c)), byte(len(c)>>8)), c...)
		}
		f.Add(b)
	}
	create := encode(cmdCreateID, createID{UID: 1, Response: replyAddr, PS: spaceTCP}, 4)
	event := encode(cmdGetEvent, getEvent{replyAddr}, 336)
	resolve := encode(cmdResolveIP, resolveIP{Dst: at(7174), ID: 1, TimeoutMS: 1000}, 0)
	add(create, encode(cmdBindIP, bindIP{Addr: at(7174), ID: 1}, 0), encode(cmdListen, listen{ID: 1}, 0),
		encode(cmdQueryRoute, query{Response: replyAddr, ID: 1}, 208),
		encode(cmdDestroyID, byID{Response: replyAddr, ID: 1}, 4))
	add(create, resolve, event, encode(cmdResolveRoute, resolveRoute{ID: 1, TimeoutMS: 1000}, 0), event,
		encode(cmdQuery, query{Response: replyAddr, ID: 1, Option: queryPath}, 80),
		encode(cmdQuery, query{Response: replyAddr, ID: 1, Option: queryGID}, 280),
		encode(cmdInitQPAttr, initQPAttr{Response: replyAddr, ID: 1, QPState: 1}, 144),
		encode(cmdConnect, connect{Param: connParam{QPNum: 1, Valid: 1}, ID: 1}, 0),
		encode(cmdDisconnect, disconnect{1}, 0), encode(cmdNotify, notify{ID: 1, Event: commEstablished}, 0))
	udp := encode(cmdCreateID, createID{UID: 1, Response: replyAddr, PS: spaceUDP}, 4)
	join := joinIPMcast{Response: replyAddr, UID: 2, Addr: at(0), ID: 1}
	copy(join.Addr[4:], []byte{239, 1, 2, 3})
	add(udp, resolve, encode(cmdJoinIPMcast, join, 4), event, event,
		encode(cmdLeaveMcast, byID{Response: replyAddr, ID: 1}, 4))
	add(create, encode(cmdMigrateID, migrateID{Response: replyAddr, ID: 1, FD: 3}, 4),
		encode(cmdReject, reject{ID: 1}, 0), encode(cmdAccept, accept{ID: 1}, 0),
		encode(cmdSetOption, setOption{ID: 1, Len: 1}, 0))
	r := newRig(f)
	f.Fuzz(func(t *testing.T, input []byte) {
		r.t = t
		r.front.nextID, r.front.nextGroup = 0, 0
		p := r.open()
		for n := 0; len(input) > 1 && n < 50; n++ {
			size := min(int(input[0])|int(input[1])<<8, len(input)-2)
			command := input[2 : 2+size]
			input = input[2+size:]
			reply := p.f.Call(&devices.Request{Data: command})
			for _, s := range reply.Stores {
				require.LessOrEqual(t, len(s.Data), int(ne.Uint16(command[6:])))
			}
		}
		p.f.Close()
		assert.Empty(t, r.front.ids)
		assert.Empty(t, r.front.groups)
	})
}
