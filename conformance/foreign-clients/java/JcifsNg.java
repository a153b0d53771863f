// Tests the server with the Java library jcifs-ng, which signs but does not encrypt.
//
//   JcifsNg HOST PORT SHARE USER PASSWORD DIALECT signed STRANGERS-PORT
//
// The lane's relay checks the traffic at PORT. The logon with a wrong password uses STRANGERS-PORT.

import java.io.InputStream;
import java.io.OutputStream;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import jcifs.CIFSContext;
import jcifs.config.PropertyConfiguration;
import jcifs.context.BaseContext;
import jcifs.smb.NtStatus;
import jcifs.smb.NtlmPasswordAuthenticator;
import jcifs.smb.SmbAuthException;
import jcifs.smb.SmbException;
import jcifs.smb.SmbFile;

public class JcifsNg {
    static final int ENTRIES = 5000;
    static final int SIZE = 64 << 20;
    static final String FOLDER = "jcifs-ng/";
    static final String NEEDLE = FOLDER + "anabranch-needle";
    static final String UNICODE = "Grüße Ω 日本 😀";
    static final Map<String, String> DIALECTS = Map.of(
        "2.0.2", "SMB202", "2.1", "SMB210", "3.0", "SMB300", "3.0.2", "SMB302", "3.1.1", "SMB311");

    static CIFSContext context;
    static String root;

    interface Call {
        void run() throws Exception;
    }

    public static void main(String[] args) throws Exception {
        var properties = new Properties();
        properties.put("jcifs.smb.client.minVersion", DIALECTS.get(args[5]));
        properties.put("jcifs.smb.client.maxVersion", DIALECTS.get(args[5]));
        properties.put("jcifs.smb.client.signingEnforced", "true");
        properties.put("jcifs.smb.client.ipcSigningEnforced", "true");
        properties.put("jcifs.smb.client.dfs.disabled", "true");
        var base = new BaseContext(new PropertyConfiguration(properties));
        root = "smb://" + args[0] + ":" + args[7] + "/" + args[2] + "/";
        context = base.withCredentials(new NtlmPasswordAuthenticator(null, args[3], "wrong"));
        try {
            at("").exists();
            throw new AssertionError("a wrong password was taken");
        } catch (SmbAuthException error) {
            must(error.getNtStatus() == NtStatus.NT_STATUS_LOGON_FAILURE, "a wrong password: " + error);
        }
        context = base.withCredentials(new NtlmPasswordAuthenticator(null, args[3], args[4]));
        root = "smb://" + args[0] + ":" + args[1] + "/" + args[2] + "/";
        list();
        at(FOLDER).mkdir();
        thereAndBack();
        refusals();
        at(FOLDER + UNICODE).delete();
        at(FOLDER).delete();
        must(!at(FOLDER).exists(), "a removed folder is there");
        context.close();
    }

    static SmbFile at(String path) throws Exception {
        return new SmbFile(root + path, context);
    }

    static void list() throws Exception {
        Set<String> names = new HashSet<>(Arrays.asList(at("many/").list()));
        must(names.size() == ENTRIES, names.size() + " entries");
        must(names.contains("entry-0000-ä") && names.contains("entry-4999-ä"), "the first or the last entry");
    }

    static void thereAndBack() throws Exception {
        byte[] data = new byte[SIZE];
        for (int at = 0; at < SIZE; at++) {
            data[at] = (byte) ((at >> 16) ^ (at * 7));
        }
        try (OutputStream out = at(NEEDLE).getOutputStream()) {
            out.write(data);
        }
        try (InputStream in = at(NEEDLE).getInputStream()) {
            must(Arrays.equals(in.readAllBytes(), data), "other bytes came back");
        }
        at(NEEDLE).renameTo(at(FOLDER + UNICODE));
        must(!at(NEEDLE).exists(), "the old name is there");
        must(at(FOLDER + UNICODE).length() == SIZE, "another size");
        must(Arrays.asList(at(FOLDER).list()).contains(UNICODE), "another name");
    }

    static void refusals() {
        refused(NtStatus.NT_STATUS_OBJECT_NAME_NOT_FOUND, "a missing file", () -> at(NEEDLE).openInputStream());
        refused(NtStatus.NT_STATUS_OBJECT_PATH_NOT_FOUND, "a missing directory", () -> at(FOLDER + "no/file").openInputStream());
        refused(NtStatus.NT_STATUS_OBJECT_NAME_COLLISION, "a file that exists", () -> at(FOLDER + UNICODE).renameTo(at("many/entry-0000-ä")));
        refused(NtStatus.NT_STATUS_OBJECT_NAME_COLLISION, "a directory that exists", () -> at(FOLDER).mkdir());
        refused(NtStatus.NT_STATUS_ACCESS_DENIED, "a file of somebody else", () -> at("denied").openInputStream());
    }

    static void refused(int status, String what, Call call) {
        try {
            call.run();
        } catch (SmbException error) {
            must(error.getNtStatus() == status, what + ": " + error);
            return;
        } catch (Exception error) {
            throw new AssertionError(what, error);
        }
        throw new AssertionError(what + " was not refused");
    }

    static void must(boolean is, String what) {
        if (!is) {
            throw new AssertionError(what);
        }
    }
}
