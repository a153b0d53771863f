// Replaces the LDAP client, which the suites use in domains only: it does not connect.
using System;
using System.Collections;

namespace Novell.Directory.Ldap
{
    public class LdapConnection
    {
        public const int ScopeSub = 2;
        static NotSupportedException None() => new NotSupportedException("there is no LDAP here");
        public void Connect(string host, int port) => throw None();
        public void Bind(string user, string password) => throw None();
        public ILdapSearchResults Search(string from, int scope, string filter, string[] attributes, bool typesOnly) => throw None();
        public LdapSearchQueue Search(string from, int scope, string filter, string[] attributes, bool typesOnly, LdapSearchQueue queue, object constraints) => throw None();
    }
    public interface ILdapSearchResults { bool HasMore(); LdapEntry Next(); }
    public class LdapSearchQueue { public LdapMessage GetResponse() => null; }
    public class LdapMessage { }
    public class LdapSearchResult : LdapMessage { public LdapEntry Entry => null; }
    public class LdapEntry
    {
        public string Dn => null;
        public LdapAttribute GetAttribute(string name) => null;
        public LdapAttributeSet GetAttributeSet() => null;
    }
    public class LdapAttributeSet { public IEnumerator GetEnumerator() => null; }
    public class LdapAttribute
    {
        public string Name => null;
        public string StringValue => null;
        public string[] StringValueArray => null;
        public byte[] ByteValue => null;
        public byte[][] ByteValueArray => null;
    }
}

namespace Org.BouncyCastle.Crypto { public class BufferedBlockCipher
    {
        readonly Modes.CbcBlockCipher cipher;
        public BufferedBlockCipher(Modes.CbcBlockCipher cipher) { this.cipher = cipher; }
        public void Init(bool encrypt, Parameters.ParametersWithIV parameters) => throw new NotSupportedException("LM hashes");
        public int GetOutputSize(int length) => length;
        public int ProcessBytes(byte[] from, int at, int length, byte[] to, int start) => 0;
        public int DoFinal(byte[] to, int at) => 0;
    } }
namespace Org.BouncyCastle.Crypto.Engines { public class DesEngine { } }
namespace Org.BouncyCastle.Crypto.Modes { public class CbcBlockCipher { public CbcBlockCipher(Engines.DesEngine engine) { } } }
namespace Org.BouncyCastle.Crypto.Parameters
{
    public class KeyParameter { public KeyParameter(byte[] key) { } }
    public class ParametersWithIV { public ParametersWithIV(KeyParameter key, byte[] iv) { } }
}
