package audit

import "encoding/hex"

func decodeHash(text string, h *hash) error {
	_, err := hex.Decode(h[:], []byte(text)[:min(len(text), 2*len(h))])
	return err
}

// finish checks what only the end of the chain can show: a cut, signatures
// that are gone, and a beginning that no prune record explains.
func (v *verifier) finish() {
	if v.held != nil {
		v.settleHeld(nil)
		return
	}
	if v.cut() {
		return
	}
	end := v.last
	if first := v.report.First; first > 1 {
		if through, ok := v.prunes[first-1]; !ok || through != v.prunedAt {
			v.found(Removed, v.first, "records 1 to %d are missing, and no record says that retention removed them",
				first-1)
			return
		}
	}
	// A start is signed before its first call, and killed at times before that.
	if v.called && v.report.Signed < max(v.started, 1) ||
		v.report.Last-max(v.report.Signed, v.report.First-1) > 2*signEvery {
		v.found(Rebuilt, end, "records %d to %d are covered by no checkpoint, though each start and every %d records "+
			"have one: checkpoints were removed",
			v.report.Signed+1, v.report.Last, signEvery)
	}
}

// cut finds the checkpoint that covers the most, and compares.
func (v *verifier) cut() bool {
	var most point
	for _, p := range v.points {
		if p.Seq > most.Seq {
			most = p
		}
	}
	if most.Seq <= v.report.Last {
		return false
	}
	at := v.last
	if at.File == "" {
		at.File = v.file
	}
	v.found(Cut, at, "the records end with %d, but %s covers %d of them: %d are gone", v.report.Last, most.from,
		most.Seq, most.Seq-v.report.Last)
	return true
}
