// Command mutate measures the certifier by source mutation. It makes small changes to the software that the certifier
// judges, one at a time, and counts how many of them the certifier detects.
//
//	go run ./tools/mutate -n 300 -seed 1                     300 mutants, drawn by seed, by the certifier alone
//	go run ./tools/mutate -n 300 -seed 1 -tests              the tests of the packages judge the survivors, too
//	go run ./tools/mutate -packages rvt,sma -out r.jsonl     some packages; results in a file, for resuming
//	go run ./tools/mutate -survivors r.jsonl                 once more those that survived in a file of results
//	go run ./tools/mutate -list -n 20                        the mutants that a run would try
//
// A mutant is a text edit of one expression or statement. The tree stays as it is: builds have an overlay. All mutants
// of a sample are built at once: a mutated function is copied with the edit, and the original begins by calling the
// copy that an environment variable selects (see guard). The few for which this would change more than the edit are
// built one at a time. A mutant that does not compile is replaced by the next one of the sample. Calls of Lock and
// Unlock are never changed: races have a detector of their own.
//
// The same binary without a selection records in one run of each kind which cases execute the code of which mutants.
// Only these cases judge a mutant, and a mutant that no run executes survives at once.
//
// The certifier runs over the links and layers through which it reaches the mutated package (see routes). A mutant is
// killed if a run ends with status 1 (a requirement failed), 3 (the driver crashed) or 7 (a claim is not tested), or if
// a run takes many times as long as without mutants. Runs with status 5 or 6 (inconclusive, flaky) are repeated once.
//
// The mutation score is the share of mutants that the certifier killed. Edits that nobody can observe are listed in
// exclusions.yaml with the reason. A run prints how many mutants of its sample are excluded, and why.
package main
