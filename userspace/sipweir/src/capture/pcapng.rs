//! A capture as a pcapng file (draft-ietf-opsawg-pcapng): one section, one Ethernet interface with nanoseconds, and one enhanced
//! packet block for each packet, with what became of it as its comment (`opt_comment`).

use std::borrow::Cow;

use pcap_parser::pcapng::{
    EnhancedPacketBlock, InterfaceDescriptionBlock, OptionCode, PcapNGOption, SectionHeaderBlock,
};
use pcap_parser::{Linktype, ToVec};

use super::live::PACKET_BYTES_MAX;
use super::record::Record;

/// Nanoseconds: 10⁻⁹ s.
const RESOLUTION: u8 = 9;

fn option(code: OptionCode, text: &str) -> PcapNGOption<'_> {
    // Nothing of ours comes near it.
    let text = &text.as_bytes()[..text.len().min(usize::from(u16::MAX))];
    PcapNGOption { code, len: text.len() as u16, value: Cow::Borrowed(text) }
}

/// What a file begins with.
pub(super) fn head(interface: &str) -> std::io::Result<Vec<u8>> {
    let program = concat!("sipweir ", env!("CARGO_PKG_VERSION"));
    let mut section = SectionHeaderBlock {
        block_type: 0,
        block_len1: 0,
        bom: 0,
        major_version: 1,
        minor_version: 0,
        // Not known before the end.
        section_len: -1,
        options: vec![option(OptionCode::ShbUserAppl, program)],
        block_len2: 0,
    };
    let mut description = InterfaceDescriptionBlock {
        block_type: 0,
        block_len1: 0,
        linktype: Linktype::ETHERNET,
        reserved: 0,
        snaplen: PACKET_BYTES_MAX as u32,
        options: vec![option(OptionCode::IfName, interface)],
        block_len2: 0,
        if_tsresol: RESOLUTION,
        if_tsoffset: 0,
    };
    let mut head = written(&mut section)?;
    head.extend(written(&mut description)?);
    Ok(head)
}

/// One packet.
pub(super) fn packet(record: &Record, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let comment = record.comment();
    let len = u32::try_from(record.packet_len).unwrap_or(u32::MAX);
    let mut block = EnhancedPacketBlock {
        block_type: 0,
        block_len1: 0,
        if_id: 0,
        ts_high: (record.at_ns >> 32) as u32,
        ts_low: record.at_ns as u32,
        caplen: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
        origlen: len,
        data: bytes,
        options: vec![option(OptionCode::Comment, &comment)],
        block_len2: 0,
    };
    written(&mut block)
}

fn written(block: &mut impl ToVec) -> std::io::Result<Vec<u8>> {
    block.to_vec().map_err(|error| std::io::Error::other(format!("cannot write pcapng: {error:?}")))
}

#[cfg(test)]
mod tests {
    use pcap_parser::pcapng::OptionCode;
    use pcap_parser::traits::PcapReaderIterator as _;
    use pcap_parser::{Block, PcapBlockOwned, PcapError, PcapNGReader};

    use super::{Record, head, packet};

    #[test]
    fn a_reader_finds_packets_times_and_comments() {
        let record = Record {
            at_ns: 1_796_000_000_123_456_789,
            len: 5,
            packet_len: 9000,
            verdict: "shed".into(),
            reason: "rejected".into(),
            class: "original".into(),
            service: "main".into(),
            by: "worker 0".into(),
        };
        let mut file = head("eth0").expect("written");
        for len in [5, 8] {
            file.extend(packet(&record, &b"abcdefgh"[..len]).expect("written"));
        }
        let mut reader = PcapNGReader::new(65_536, file.as_slice()).expect("a section");
        let mut seen = Vec::new();
        loop {
            match reader.next() {
                Ok((offset, PcapBlockOwned::NG(Block::EnhancedPacket(block)))) => {
                    let comment = block.options.iter().find(|option| option.code == OptionCode::Comment);
                    let comment = comment.and_then(|option| option.as_bytes().ok()).expect("a comment");
                    seen.push((
                        u64::from(block.ts_high) << 32 | u64::from(block.ts_low),
                        block.data[..block.caplen as usize].to_vec(),
                        block.origlen,
                        String::from_utf8(comment.to_vec()).expect("UTF-8"),
                    ));
                    reader.consume(offset);
                }
                Ok((offset, PcapBlockOwned::NG(Block::InterfaceDescription(block)))) => {
                    assert_eq!((block.linktype.0, block.if_tsresol), (1, 9));
                    reader.consume(offset);
                }
                Ok((offset, _)) => reader.consume(offset),
                Err(PcapError::Eof) => break,
                // Only then it learns that there is no more.
                Err(PcapError::Incomplete(_)) => reader.refill().expect("a slice"),
                Err(error) => panic!("{error:?}"),
            }
        }
        let comment = "shed: rejected; class original, service main, by worker 0".to_owned();
        assert_eq!(
            seen,
            [
                (record.at_ns, b"abcde".to_vec(), 9000, comment.clone()),
                (record.at_ns, b"abcdefgh".to_vec(), 9000, comment)
            ]
        );
    }
}
