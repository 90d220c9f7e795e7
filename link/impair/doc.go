// Package impair drops, duplicates, reorders, delays and corrupts packets, for tests.
//
// A Port does so in front of any port:
//
//	port, err := udp.New(udp.Config{Addr: netip.MustParseAddr("127.0.0.1")})
//	…
//	bad, err := impair.New(port, impair.Config{Seed: 1, Out: impair.Model{Drop: 0.01}})
//
// A Model holds the probabilities. A Lane applies one to the packets of one direction, whatever their form: a Port has
// two lanes, and a network of package sim has one for each pair of addresses. The choices of a lane depend on its seed
// and on the order of its packets only, so that a run on a virtual clock replays.
//
// A Port adds these counters to HCA.Counters:
//
//	impair_passed      packets that passed unharmed
//	impair_dropped     packets that were dropped
//	impair_duplicated  packets that were sent twice
//	impair_reordered   packets that were held back behind later ones
//	impair_delayed     packets that were held for a time
//	impair_corrupted   packets in which a bit was flipped: those that the ICRC detects are counted as drop_icrc, too
package impair
