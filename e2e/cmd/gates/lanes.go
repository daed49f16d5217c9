package main

import "time"

// runAll runs the gates in their order, as many side by side as there are lanes
// and as they allow, and prints them one after the other.
func runAll(gates []gate, lanes int) (sum count, sheets []*sheet) {
	for len(gates) > 0 {
		n := 1
		for n < len(gates) && gates[n].beside {
			n++
		}
		results := start(gates[:n], lanes)
		for _, r := range results {
			r.show()
			<-r.done
			sum.add(r.count)
			sheets = append(sheets, r.sheet)
		}
		gates = gates[n:]
	}
	return sum, sheets
}

type result struct {
	*sheet
	done  chan struct{} // closed once count is there
	count count
}

// start runs gates that allow each other, in their order.
func start(gates []gate, lanes int) []*result {
	results := make([]*result, len(gates))
	for i := range gates {
		results[i] = &result{sheet: &sheet{}, done: make(chan struct{})}
	}
	places := make(chan struct{}, lanes)
	go func() {
		for i, g := range gates {
			places <- struct{}{}
			go func() {
				results[i].run(g)
				<-places
			}()
		}
	}()
	return results
}

func (r *result) run(g gate) {
	defer close(r.done)
	began := time.Now()
	r.say("=== gate %s\n", g.name)
	r.count = g.run(r.sheet)
	r.say("--- gate %-11s %5.1f min: %s\n", g.name, time.Since(began).Minutes(), r.count)
}
