package ucm

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/kproxy/devices"
	abi "ciddk/internal/ucmabi"
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
	create := encode(abi.CmdCreateID, abi.CreateID{UID: 1, Response: replyAddr, PS: abi.SpaceTCP}, 4)
	event := encode(abi.CmdGetEvent, abi.GetEvent{Response: replyAddr}, 336)
	resolve := encode(abi.CmdResolveIP, abi.ResolveIP{Dst: at(7174), ID: 1, TimeoutMS: 1000}, 0)
	add(create, encode(abi.CmdBindIP, abi.BindIP{Addr: at(7174), ID: 1}, 0), encode(abi.CmdListen, abi.Listen{ID: 1},
		0),
		encode(abi.CmdQueryRoute, abi.Query{Response: replyAddr, ID: 1}, 208),
		encode(abi.CmdDestroyID, abi.ByID{Response: replyAddr, ID: 1}, 4))
	add(create, resolve, event, encode(abi.CmdResolveRoute, abi.ResolveRoute{ID: 1, TimeoutMS: 1000}, 0), event,
		encode(abi.CmdQuery, abi.Query{Response: replyAddr, ID: 1, Option: abi.QueryPath}, 80),
		encode(abi.CmdQuery, abi.Query{Response: replyAddr, ID: 1, Option: abi.QueryGID}, 280),
		encode(abi.CmdInitQPAttr, abi.InitQPAttr{Response: replyAddr, ID: 1, QPState: 1}, 144),
		encode(abi.CmdConnect, abi.Connect{Param: abi.ConnParam{QPNum: 1, Valid: 1}, ID: 1}, 0),
		encode(abi.CmdDisconnect, abi.Disconnect{ID: 1}, 0), encode(abi.CmdNotify, abi.Notify{ID: 1,
			Event: abi.CommEstablished}, 0))
	udp := encode(abi.CmdCreateID, abi.CreateID{UID: 1, Response: replyAddr, PS: abi.SpaceUDP}, 4)
	join := abi.JoinIPMcast{Response: replyAddr, UID: 2, Addr: at(0), ID: 1}
	copy(join.Addr[4:], []byte{239, 1, 2, 3})
	add(udp, resolve, encode(abi.CmdJoinIPMcast, join, 4), event, event,
		encode(abi.CmdLeaveMcast, abi.ByID{Response: replyAddr, ID: 1}, 4))
	add(create, encode(abi.CmdMigrateID, abi.MigrateID{Response: replyAddr, ID: 1, FD: 3}, 4),
		encode(abi.CmdReject, abi.Reject{ID: 1}, 0), encode(abi.CmdAccept, abi.Accept{ID: 1}, 0),
		encode(abi.CmdSetOption, abi.SetOption{ID: 1, Len: 1}, 0))
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
