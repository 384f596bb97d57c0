// Package record keeps the facts of a run as bytes: in the run's file on disk, and on the way from
// the machine that measured to the one that watches.
//
// A recording is written while the run goes on and is never rewritten. It is a short header and then
// blocks: about one second of facts each, checked by a checksum. If the writer is
// killed or the disk is full, everything up to the last complete block is still there and reads as
// if the run had ended at that moment. Whatever is damaged gives an error, never a wrong fact.
//
//	w, err := record.Create("run.lapse")       f, err := record.Open("run.lapse")
//	w.Append(fact)                             run, err := f.Run()
//	w.Flush() // each second                   for batch, err := range run.Batches { … }
//	w.Close()                                  f.Close()
//
// [Decode] reads facts from any stream of such bytes. [Writer.Tail] hands out the bytes of a
// recording that still grows, and a [Copy] receives them elsewhere: byte for byte the same file.
//
// # Format
//
//	recording = magic block*
//	magic     = "LAPSE" 1A 0A version           8 bytes; version is 4
//	block     = length crc check payload        each uint32, little endian
//	payload   = size facts n [lengths]          size and n are uvarints; no lengths if n is 0
//	lengths   = age size symbols bits           age is a byte, size a uvarint
//
// length counts the payload's bytes; crc is the payload's CRC-32C, check that of the 8 bytes before
// it (so that a damaged length is known as damage and not taken for an unfinished block).
//
// facts takes up size/2 bytes, as they are if size is even and as a zstd frame if it is odd. Inside it lie
// the sizes of the columns, a head, and the columns. The head holds the block's facts in order: small ones
// as JSON, a batch as what is new against the batch before it, its watermarks and the number of its
// requests. Which target a request went to, its number, when it was due and how it ended lie in the
// columns (see columns.go), grouped by target: differences to what was to be expected, which are mostly
// zero.
//
// The lengths of the parts of all n requests follow, to the microsecond (see lengths.go): they are nearly
// all of a recording. They are split into size bytes of symbols, written with codes that the lengths
// before them tell (see code.go and rans.go), and bits that nothing tells.
//
// So who wants a block's requests has to have read those of all blocks before it. age guards that: it
// counts the blocks with requests that the codes come from, and is 0 where the codes begin anew. What else
// is in a block can be read without.
//
// The order of the requests in a batch means nothing, and is not kept: they come back by target and Seq.
package record
