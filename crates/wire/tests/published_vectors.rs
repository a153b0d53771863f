//! Keys, signatures and seals against the examples that Microsoft publishes: "SMB 2 and SMB 3
//! security in Windows 10: the anatomy of signing and cryptographic keys" (appendix) and
//! "Encryption in SMB 3.0: a protocol perspective" with its successor for 3.1.1.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test, which fails by it")]

use wire::crypto::{Cipher, KeyPurpose, OpeningKey, SigningAlgorithm, SigningKey, derive};
use wire::smb::{Dialect, TransformHeader};

fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    (0..digits.len() / 2)
        .map(|i| u8::from_str_radix(&digits[i * 2..i * 2 + 2], 16).unwrap())
        .collect()
}

fn hash(text: &str) -> [u8; 64] {
    hex(text).try_into().unwrap()
}

const PREAUTH: &str = "0DD13628CC3ED218EF9DF9772D436D0887AB9814BFAE63A80AA845F36909DB79
                       28622DDDAD522D9751640A459762C5A9D6BB084CBB3CE6BDADEF5D5BCE3C6C01";

#[test]
fn smb_3_0_keys_match_the_published_vectors() {
    for dialect in [Dialect::Smb300, Dialect::Smb302] {
        let session_key = hex("7CD451825D0450D235424E44BA6E78CC");
        let key = |purpose| derive::<16>(dialect, &session_key, purpose, &[0; 64]).to_vec();
        assert_eq!(key(KeyPurpose::Signing), hex("0B7E9C5CAC36C0F6EA9AB275298CEDCE"));
        assert_eq!(key(KeyPurpose::ClientToServer), hex("FAD27796665B313EBB578F388632B4F7"));
        assert_eq!(key(KeyPurpose::ServerToClient), hex("B0F0427F7CEB416D1D9DCC0CD4F99447"));
        assert_eq!(key(KeyPurpose::Application), hex("BB23A4575AA26C721AF525AF15A87B4F"));
        let second = derive::<16>(
            dialect,
            &hex("4E01A2B313BCF660CC250BEF021AEDE6"),
            KeyPurpose::Signing,
            &[0; 64],
        );
        assert_eq!(second.to_vec(), hex("BA1A17DBBFEC349BCA105563D598952F"), "a second channel");
    }
}

#[test]
fn smb_3_1_1_keys_match_the_published_vectors() {
    let session_key = hex("270E1BA896585EEB7AF3472D3B4C75A7");
    let key =
        |purpose| derive::<16>(Dialect::Smb311, &session_key, purpose, &hash(PREAUTH)).to_vec();
    assert_eq!(key(KeyPurpose::Signing), hex("73FE7A9A77BEF0BDE49C650D8CCB5F76"));
    assert_eq!(key(KeyPurpose::ClientToServer), hex("629BCBC54422A0F572B97F45989B6073"));
    assert_eq!(key(KeyPurpose::ServerToClient), hex("E2AF0DCEFAC68DA71A0DFBD0D1350D74"));
    assert_eq!(key(KeyPurpose::Application), hex("6D7AD7954E9EC61E907B4D473DC178FF"));
}

#[test]
fn published_session_setup_signature_matches() {
    let message =
        hex("FE534D4240000100000000000100800009000000000000000300000000000000FFFE000000000000
         1900000000100000EBE146DA120BA25FC3376A49DFE31BC10900000048001D00A11B3019A0030A01
         00A3120410010000003B453CDC3524164200000000");
    let key = hex("73FE7A9A77BEF0BDE49C650D8CCB5F76").try_into().unwrap();
    let signing = SigningKey::new(SigningAlgorithm::AesCmac, &key);
    assert!(signing.verify(&message));
    let mut again = message.clone();
    again[48..64].fill(0xFF);
    signing.sign(&mut again);
    assert_eq!(again, message);
    again[70] ^= 1;
    assert!(!signing.verify(&again));
}

fn open(cipher: Cipher, key: [u8; 16], sealed: &str) -> Vec<u8> {
    let mut frame = hex(sealed);
    let mut padded = [0; 32];
    padded[..16].copy_from_slice(&key);
    OpeningKey::new(cipher, &padded).open_in_place(&mut frame).unwrap();
    frame.split_off(TransformHeader::LENGTH)
}

#[test]
fn published_smb_3_0_sealed_messages_open() {
    let session_key = hex("B4546771B515F766A86735532DD6C4F0");
    let key = |purpose| derive::<16>(Dialect::Smb300, &session_key, purpose, &[0; 64]);
    assert_eq!(key(KeyPurpose::ClientToServer).to_vec(), hex("261B72350558F2E9DCF613070383EDBF"));
    assert_eq!(key(KeyPurpose::ServerToClient).to_vec(), hex("8FE2B57EC34D2DB5B1A9727F526BBDB5"));
    let request = open(
        Cipher::Aes128Ccm,
        key(KeyPurpose::ClientToServer),
        "FD534D4281A286535415445DAE393921E44FA42E66E69A111892584FB5ED524A744DA3EE87000000
         000001001100001400E4080025C8FEE16605A437832D1CD52DA9F4645333482A175FE5384563F45F
         CDAFAEF38BC62BA4D5C62897996625A44C29BE5658DE2E6117585779E7B59FFD971278D08580D7FA
         899E410E910EABF5AA1DB43050B33B49182637759AC15D84BFCDF5B6B238993C0F4CF4D6012023F6
         C627297075D84B7803912D0A9639634453595EF3E33FFE4E7AC2AB",
    );
    assert!(request.ends_with(b"Smb3 encryption testing"));
    let response = open(
        Cipher::Aes128Ccm,
        key(KeyPurpose::ServerToClient),
        "FD534D42A6015530A18F6D9AFFE22AFAE8E6648486000000000000001100001400E4080050000000
         000001001100001400E40800DBF46435C5F14169293CE079E344479BF670227E49873F458672C309
         8DAC467DD5809F369D674091665157871483E01F7BECD02064EAC3E235F913668BBC2F097980D4B3
         78F1993EFF6E60D177309E5B",
    );
    let plain = "FE534D4240000100000000000900210009000000000000000400000000000000FFFE000001000000
                 1100001400E408000000000000000000000000000000000011000000170000000000000000000000";
    assert_eq!(response, hex(plain));
}

#[test]
fn published_smb_3_1_1_sealed_messages_open() {
    let preauth = hash(
        "B23F3CBFD69487D9832B79B1594A367CDD950909B774C3A4C412B4FCEA9EDDDB
         A7DB256BA2EA30E977F11F9B113247578E0E915C6D2A513B8F2FCA5707DC8770",
    );
    let session_key = hex("419FDDF34C1E001909D362AE7FB6AF79");
    let key = |purpose| derive::<16>(Dialect::Smb311, &session_key, purpose, &preauth);
    assert_eq!(key(KeyPurpose::ClientToServer).to_vec(), hex("A2F5E80E5D59103034F32E52F698E5EC"));
    assert_eq!(key(KeyPurpose::ServerToClient).to_vec(), hex("748C50868C90F302962A5C35F5F9A8BF"));
    let request = open(
        Cipher::Aes128Gcm,
        key(KeyPurpose::ClientToServer),
        "FD534D42BD73D97D2BC9001BCAFAC0FDFF5FEEBCC7D6822D269CAF48904C664C0000000087000000
         0000010025000000001000006ECDD2A7AFC7B47763057A041B8FD4DAFFE990B70C9E09D36C084E02
         D14EF247F8BDE38ACF6256F8B1D3B56F77FBDEB312FEA5E92CBCC1ED8FB2EBBFAA75E49A4A394BB4
         4576545567C24D4C014D47C9FBDFDAFD2C4F9B72F8D256452620A299F48E29E53D6B61D1C13A19E9
         1AF013F00D17E3ABC2FC3D36C8C1B6B93973253852DBD442E46EE8",
    );
    assert!(request.ends_with(b"Smb3 encryption testing"));
    let response = open(
        Cipher::Aes128Gcm,
        key(KeyPurpose::ServerToClient),
        "FD534D42ACBE1CB7ED343ADF1725EF144D90D4B0E06831DD2E8EB7B4000000000000000050000000
         00000100250000000010000026BBBF949983A6C1C796559D0F2C510CB651D1F7B6AC8DED32A2A0B8
         F2D793A815C6F6B848D69767A215841A42D400AE6DDB5F0B44173A014973321FDD7950DA6179159B
         82E03C9E18A050FF0EA1C967",
    );
    assert_eq!(response[..4], *b"\xFESMB");
    assert_eq!(response.len(), 80);
}
