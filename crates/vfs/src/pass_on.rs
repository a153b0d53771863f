//! Calls that a decorator of a backend passes on, each signature once.

/// Methods of [`Vfs`](crate::Vfs) and [`PersistentHandles`](crate::PersistentHandles) that call the
/// same method of the decorated backend, the field `inner`.
///
/// `around NAME` calls the decorator's method of that name first, and drops its result after the
/// backend has returned.
#[macro_export]
macro_rules! pass_on {
    (around $guard:ident: $($call:ident),+ $(,)?) => { $($crate::pass_on!(@$call [$guard]);)+ };
    ($($call:ident),+ $(,)?) => { $($crate::pass_on!(@$call []);)+ };
    (@lookup_child [$($guard:ident)?]) => {
        fn lookup_child(
            &self,
            actor: $crate::Actor<'_>,
            child: $crate::ChildName<'_>,
            how: $crate::OpenHow,
        ) -> $crate::ChildLookup {
            $(let _around = self.$guard();)?
            self.inner.lookup_child(actor, child, how)
        }
    };
    (@create [$($guard:ident)?]) => {
        fn create(
            &self,
            actor: $crate::Actor<'_>,
            path: &$crate::RelPath,
            case: $crate::Case,
            how: $crate::CreateHow<'_>,
        ) -> $crate::Result<$crate::OpenedNode> {
            $(let _around = self.$guard();)?
            self.inner.create(actor, path, case, how)
        }
    };
    (@create_in [$($guard:ident)?]) => {
        fn create_in(
            &self,
            actor: $crate::NameActor<'_>,
            child: $crate::ChildName<'_>,
            case: $crate::Case,
            how: $crate::CreateHow<'_>,
        ) -> $crate::Result<$crate::OpenedNode> {
            $(let _around = self.$guard();)?
            self.inner.create_in(actor, child, case, how)
        }
    };
    (@create_special [$($guard:ident)?]) => {
        fn create_special(
            &self,
            actor: $crate::Actor<'_>,
            path: &$crate::RelPath,
            kind: $crate::SpecialKind,
            mode: $crate::CreationMode,
        ) -> $crate::Result<$crate::OpenedNode> {
            $(let _around = self.$guard();)?
            self.inner.create_special(actor, path, kind, mode)
        }
    };
    (@create_special_in [$($guard:ident)?]) => {
        fn create_special_in(
            &self,
            actor: $crate::NameActor<'_>,
            child: $crate::ChildName<'_>,
            new: $crate::NewChild<'_>,
        ) -> $crate::Result<$crate::OpenedNode> {
            $(let _around = self.$guard();)?
            self.inner.create_special_in(actor, child, new)
        }
    };
    (@symlink [$($guard:ident)?]) => {
        fn symlink(
            &self,
            actor: $crate::Actor<'_>,
            path: &$crate::RelPath,
            target: &[u8],
        ) -> $crate::Result<$crate::OpenedNode> {
            $(let _around = self.$guard();)?
            self.inner.symlink(actor, path, target)
        }
    };
    (@remove [$($guard:ident)?]) => {
        fn remove(
            &self,
            actor: $crate::Actor<'_>,
            path: &$crate::RelPath,
            expected: $crate::FileKey,
        ) -> $crate::Result<()> {
            $(let _around = self.$guard();)?
            self.inner.remove(actor, path, expected)
        }
    };
    (@remove_in [$($guard:ident)?]) => {
        fn remove_in(
            &self,
            actor: $crate::NameActor<'_>,
            child: $crate::ChildName<'_>,
            expected: $crate::ExpectedChild,
        ) -> $crate::Result<()> {
            $(let _around = self.$guard();)?
            self.inner.remove_in(actor, child, expected)
        }
    };
    (@rename [$($guard:ident)?]) => {
        fn rename(
            &self,
            actor: $crate::Actor<'_>,
            from: &$crate::RelPath,
            to: &$crate::RelPath,
            replace: $crate::Replace,
        ) -> $crate::Result<()> {
            $(let _around = self.$guard();)?
            self.inner.rename(actor, from, to, replace)
        }
    };
    (@rename_in [$($guard:ident)?]) => {
        fn rename_in(
            &self,
            actor: $crate::NameActor<'_>,
            rename: $crate::ChildRename<'_>,
        ) -> $crate::Result<()> {
            $(let _around = self.$guard();)?
            self.inner.rename_in(actor, rename)
        }
    };
    (@link [$($guard:ident)?]) => {
        fn link(
            &self,
            actor: $crate::Actor<'_>,
            node: &dyn $crate::Node,
            to: &$crate::RelPath,
            replace: $crate::Replace,
        ) -> $crate::Result<()> {
            $(let _around = self.$guard();)?
            self.inner.link(actor, node, to, replace)
        }
    };
    (@link_as_posix [$($guard:ident)?]) => {
        fn link_as_posix(
            &self,
            actor: $crate::Actor<'_>,
            node: &dyn $crate::Node,
            to: &$crate::RelPath,
        ) -> $crate::Result<()> {
            $(let _around = self.$guard();)?
            self.inner.link_as_posix(actor, node, to)
        }
    };
    (@open_node [$($guard:ident)?]) => {
        fn open_node(
            &self,
            actor: $crate::Actor<'_>,
            node: &dyn $crate::Node,
            how: $crate::OpenHow,
        ) -> $crate::Result<$crate::OpenedNode> {
            $(let _around = self.$guard();)?
            self.inner.open_node(actor, node, how)
        }
    };
    (@space [$($guard:ident)?]) => {
        fn space(&self, actor: $crate::Actor<'_>) -> $crate::Result<$crate::Space> {
            $(let _around = self.$guard();)?
            self.inner.space(actor)
        }
    };
    (@space_of [$($guard:ident)?]) => {
        fn space_of(
            &self,
            actor: $crate::Actor<'_>,
            node: &dyn $crate::Node,
        ) -> $crate::Result<$crate::Space> {
            $(let _around = self.$guard();)?
            self.inner.space_of(actor, node)
        }
    };
    (@is_read_only [$($guard:ident)?]) => {
        fn is_read_only(&self) -> bool {
            $(let _around = self.$guard();)?
            self.inner.is_read_only()
        }
    };
    (@is_read_only_at [$($guard:ident)?]) => {
        fn is_read_only_at(&self, node: &dyn $crate::Node) -> bool {
            $(let _around = self.$guard();)?
            self.inner.is_read_only_at(node)
        }
    };
    (@quotas [$($guard:ident)?]) => {
        fn quotas(&self) -> Option<&dyn $crate::UserQuotas> {
            $(let _around = self.$guard();)?
            self.inner.quotas()
        }
    };
    (@external_watches [$($guard:ident)?]) => {
        fn external_watches(&self) -> Option<&dyn $crate::ExternalWatches> {
            $(let _around = self.$guard();)?
            self.inner.external_watches()
        }
    };
    (@feeds [$($guard:ident)?]) => {
        fn feeds(&self) -> Option<&dyn $crate::ChangeFeeds> {
            $(let _around = self.$guard();)?
            self.inner.feeds()
        }
    };
    (@features [$($guard:ident)?]) => {
        fn features(&self) -> $crate::TreeFeatures {
            $(let _around = self.$guard();)?
            self.inner.features()
        }
    };
    (@features_of [$($guard:ident)?]) => {
        fn features_of(&self, node: &dyn $crate::Node) -> $crate::TreeFeatures {
            $(let _around = self.$guard();)?
            self.inner.features_of(node)
        }
    };
    (@handle [$($guard:ident)?]) => {
        fn handle(
            &self,
            actor: $crate::Actor<'_>,
            node: &dyn $crate::Node,
        ) -> $crate::Result<$crate::NodeHandle> {
            $(let _around = self.$guard();)?
            self.inner.need_handles()?.handle(actor, node)
        }
    };
    (@child_handle [$($guard:ident)?]) => {
        fn child_handle(
            &self,
            actor: $crate::Actor<'_>,
            directory: &dyn $crate::Node,
            name: &$crate::Name,
            child: &$crate::Attributes,
        ) -> $crate::Result<$crate::NodeHandle> {
            $(let _around = self.$guard();)?
            self.inner.need_handles()?.child_handle(actor, directory, name, child)
        }
    };
    (@find [$($guard:ident)?]) => {
        fn find(
            &self,
            actor: $crate::Actor<'_>,
            handle: &$crate::NodeHandle,
            wanted: $crate::AttributeRequest,
        ) -> $crate::Result<$crate::LocatedNode> {
            $(let _around = self.$guard();)?
            self.inner.need_handles()?.find(actor, handle, wanted)
        }
    };
    (@path_of [$($guard:ident)?]) => {
        fn path_of(
            &self,
            actor: $crate::Actor<'_>,
            node: &dyn $crate::Node,
        ) -> $crate::Result<$crate::RelPath> {
            $(let _around = self.$guard();)?
            self.inner.need_handles()?.path_of(actor, node)
        }
    };
    (@persistent_id [$($guard:ident)?]) => {
        fn persistent_id(&self, node: &dyn $crate::Node) -> Option<$crate::NodeHandle> {
            $(let _around = self.$guard();)?
            self.inner.handles()?.persistent_id(node)
        }
    };
}
